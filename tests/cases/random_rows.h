// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/cases/random.h"

namespace plimsoll::cases {

// Writes a program on arrays of [a, b, minor] whose values are full-sized or one a row; with
// `columns`, results are one a column, too.
class RandomRows {
 public:
  RandomRows(std::uint64_t seed, std::int64_t rows, std::int64_t minor, std::string dtype,
             bool columns = false)
      : random_(seed), dtype_(std::move(dtype)), columns_(columns) {
    const std::int64_t inner = rows % 3 == 0 ? 3 : 1;
    rows_ = "[" + std::to_string(rows / inner) + "," + std::to_string(inner) + "]";
    full_ = rows_.substr(0, rows_.size() - 1) + "," + std::to_string(minor) + "]";
    minor_ = "[" + std::to_string(minor) + "]";
  }

  std::string text() {
    for (const char* name : {"p", "q"}) {
      lines_ << name << " = " << dtype_ << full_ << " parameter(" << wide_.size() << ")\n";
      wide_.push_back(name);
    }
    lines_ << "w = " << dtype_ << minor_ << " parameter(2)\nz = " << dtype_
           << "[] constant(0)\none = " << dtype_ << "[] constant(1)\n";
    narrow_.push_back(reduced("p"));
    for (int i = 0; i < 12; ++i) step();
    // What follows most, and something from the middle.
    std::vector<std::pair<std::string, std::string>> roots = {{wide_.back(), full_},
                                                              {narrow_.back(), rows_}};
    if (random_.chance(0.5)) roots.push_back({any(wide_), full_});
    if (random_.chance(0.3)) roots.erase(roots.begin());
    for (int i = 0; columns_ && i < 2; ++i) roots.push_back({column(), minor_});
    std::string types, names;
    for (const auto& [name, dims] : roots) {
      types += (types.empty() ? "" : ", ") + dtype_ + dims;
      names += (names.empty() ? "" : ", ") + name;
    }
    std::string reducers;
    for (const char* operation : {"add", "maximum", "minimum"}) {
      reducers += std::string(operation) + "_ { x = " + dtype_ + "[] parameter(0)\ny = " + dtype_ +
                  "[] parameter(1)\nROOT r = " + dtype_ + "[] " + operation + "(x, y) }\n";
    }
    return "HloModule rows\n" + reducers + "ENTRY e {\n" + lines_.str() + "ROOT r = (" + types +
           ") tuple(" + names + ") }\n";
  }

 private:
  std::string any(const std::vector<std::string>& names) {
    // Mostly a recent one, so that chains grow.
    const std::size_t last = names.size() - 1;
    return names[random_.chance(0.6) ? last : random_.below(names.size())];
  }

  std::string add(const std::string& dims, const std::string& operation) {
    const std::string name = "v" + std::to_string(count_++);
    lines_ << name << " = " << dims << " " << operation << "\n";
    return name;
  }

  std::string spread(const std::string& scalar, const std::string& dims) {
    return add(dtype_ + dims, "broadcast(" + scalar + "), dimensions={}");
  }

  std::string reduced(const std::string& value) {
    constexpr const char* kOperations[] = {"add", "maximum", "minimum"};
    const std::string operation = kOperations[random_.below(3)];
    return add(dtype_ + rows_,
               "reduce(" + value + ", z), dimensions={2}, to_apply=" + operation + "_");
  }

  std::string column() {
    constexpr const char* kOperations[] = {"add", "add", "maximum", "minimum"};
    const std::string operation = kOperations[random_.below(std::size(kOperations))];
    const std::string total =
        add(dtype_ + minor_, "reduce(" + any(wide_) + ", " + (random_.chance(0.5) ? "z" : "one") +
                                 "), dimensions={0,1}, to_apply=" + operation + "_");
    return random_.chance(0.5) ? add(dtype_ + minor_, "multiply(" + total + ", w)") : total;
  }

  std::string elementwise(const std::vector<std::string>& names, const std::string& dims) {
    const std::string type = dtype_ + dims, x = any(names), y = any(names);
    switch (random_.below(8)) {
      case 0:
        return add(type, "subtract(" + x + ", " + y + ")");
      case 1:
        return add(type, "multiply(" + x + ", " + y + ")");
      case 2:
        return add(type, "maximum(" + x + ", " + y + ")");
      case 3: {
        const std::string size = add(type, "abs(" + x + ")");
        return add(type, "exponential(" + add(type, "negate(" + size + ")") + ")");
      }
      case 4: {
        const std::string size = add(type, "abs(" + x + ")");
        const std::string above = add(type, "add(" + size + ", " + spread("one", dims) + ")");
        return random_.chance(0.5) ? add(type, "divide(" + y + ", " + above + ")")
                                   : add(type, "rsqrt(" + above + ")");
      }
      case 5: {
        const std::string half = add("bf16" + dims, "convert(" + x + ")");
        return add(type, "convert(" + half + ")");
      }
      case 6: {
        const std::string mask = add("pred" + dims, "compare(" + x + ", " + y + "), direction=LT");
        return add(type, "select(" + mask + ", " + x + ", " + spread("z", dims) + ")");
      }
      default:
        return add(type, "add(" + x + ", " + y + ")");
    }
  }

  void step() {
    switch (random_.below(6)) {
      case 0:
        return narrow_.push_back(reduced(any(wide_)));
      case 1:
        return narrow_.push_back(elementwise(narrow_, rows_));
      case 2: {
        const std::string row =
            add(dtype_ + full_, "broadcast(" + any(narrow_) + "), dimensions={0,1}");
        return wide_.push_back(add(dtype_ + full_, "subtract(" + any(wide_) + ", " + row + ")"));
      }
      case 3: {
        const std::string row = add(dtype_ + full_, "broadcast(w), dimensions={2}");
        return wide_.push_back(add(dtype_ + full_, "multiply(" + any(wide_) + ", " + row + ")"));
      }
      default:
        return wide_.push_back(elementwise(wide_, full_));
    }
  }

  Random random_;
  std::string dtype_, rows_, full_, minor_;
  const bool columns_ = false;
  std::ostringstream lines_;
  std::vector<std::string> wide_, narrow_;
  int count_ = 0;
};

}  // namespace plimsoll::cases
