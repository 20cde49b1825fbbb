// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/recorded/pack_csv.h"

#include <array>
#include <charconv>
#include <limits>
#include <unordered_map>

namespace plimsoll::planner {
namespace {

constexpr std::array<std::string_view, 5> kColumns{"id", "lower", "upper", "size", "offset"};
constexpr std::size_t kRequired = 4;
// Room for every sum of sizes and for rounding them up to an alignment.
constexpr std::int64_t kMostBytes = std::numeric_limits<std::int64_t>::max() / 4;

std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

void split(std::string_view line, std::vector<std::string_view>& fields) {
  fields.clear();
  for (;;) {
    const auto comma = line.find(',');
    fields.push_back(trimmed(line.substr(0, comma)));
    if (comma == std::string_view::npos) return;
    line.remove_prefix(comma + 1);
  }
}

class Reader {
 public:
  explicit Reader(std::string_view name) : name_(name) {}

  Result<NamedLifetimes> read(std::string_view text) {
    if (text.substr(0, 3) == "\xef\xbb\xbf") text.remove_prefix(3);
    bool has_header = false;
    while (!text.empty()) {
      const auto end = text.find('\n');
      const std::string_view line = trimmed(text.substr(0, end));
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      ++line_;
      if (line.empty()) continue;
      split(line, fields_);
      PLIMSOLL_RETURN_IF_ERROR(has_header ? row() : header());
      has_header = true;
    }
    if (!has_header) {
      line_ = 1;
      return fault("no header (id,lower,upper,size)");
    }
    return std::move(buffers_);
  }

 private:
  Status fault(const std::string& what) const {
    return invalid_argument(std::string(name_) + ":" + std::to_string(line_) + ": " + what);
  }

  Status header() {
    place_.fill(-1);
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      std::size_t column = 0;
      while (column < kColumns.size() && kColumns[column] != fields_[i]) ++column;
      if (column == kColumns.size()) {
        return fault("unknown column `" + std::string(fields_[i]) +
                     "` (the header is id,lower,upper,size)");
      }
      if (place_[column] >= 0) return fault("column `" + std::string(fields_[i]) + "` twice");
      place_[column] = static_cast<int>(i);
    }
    for (std::size_t column = 0; column < kRequired; ++column) {
      if (place_[column] < 0) {
        return fault("no column `" + std::string(kColumns[column]) +
                     "` (the header is id,lower,upper,size)");
      }
    }
    columns_ = fields_.size();
    return ok_status();
  }

  Status row() {
    if (fields_.size() != columns_) {
      return fault(std::to_string(fields_.size()) + " fields where the header has " +
                   std::to_string(columns_));
    }
    std::array<std::int64_t, kRequired> numbers{};
    for (std::size_t column = 1; column < kRequired; ++column) {
      const std::string_view text = field(column);
      const auto [stop, error] =
          std::from_chars(text.data(), text.data() + text.size(), numbers[column]);
      if (error != std::errc() || stop != text.data() + text.size()) {
        return fault(std::string(kColumns[column]) + " `" + std::string(text) +
                     "` is no 64-bit whole number");
      }
    }
    const Lifetime life{numbers[1], numbers[2], numbers[3]};
    if (field(0).empty()) return fault("no id");
    if (life.lower > life.upper) {
      return fault("upper " + std::to_string(life.upper) + " before lower " +
                   std::to_string(life.lower));
    }
    if (life.size < 0) return fault("negative size " + std::to_string(life.size));
    if (life.size > kMostBytes - total_) return fault("the sizes sum up to more than 2^61");
    total_ += life.size;
    const auto [first, is_new] = lines_.emplace(field(0), line_);
    if (!is_new) {
      return fault("id `" + std::string(field(0)) + "` is that of line " +
                   std::to_string(first->second));
    }
    buffers_.names.emplace_back(field(0));
    buffers_.lifetimes.push_back(life);
    return ok_status();
  }

  std::string_view field(std::size_t column) const {
    return fields_[static_cast<std::size_t>(place_[column])];
  }

  std::string_view name_;
  std::int64_t line_ = 0, total_ = 0;
  std::size_t columns_ = 0;
  std::array<int, kColumns.size()> place_{};  // where in a line each column stands, -1: nowhere
  std::vector<std::string_view> fields_;
  std::unordered_map<std::string_view, std::int64_t> lines_;  // of each id
  NamedLifetimes buffers_;
};

}  // namespace

Result<NamedLifetimes> parse_lifetimes(std::string_view text, std::string_view name) {
  return Reader(name).read(text);
}

std::string write_packing(const NamedLifetimes& buffers, std::span<const std::int64_t> offsets) {
  std::string text = "id,lower,upper,size,offset\n";
  for (std::size_t i = 0; i < buffers.names.size(); ++i) {
    const Lifetime& life = buffers.lifetimes[i];
    text += buffers.names[i];
    for (const std::int64_t number : {life.lower, life.upper, life.size, offsets[i]}) {
      text += ",";
      text += std::to_string(number);
    }
    text += "\n";
  }
  return text;
}

}  // namespace plimsoll::planner
