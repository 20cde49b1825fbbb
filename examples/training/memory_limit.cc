// SPDX-License-Identifier: Apache-2.0
#include "examples/training/memory_limit.h"

#include <charconv>
#include <map>

#include "plimsoll/error.hpp"

namespace plimsoll::examples {

MemoryLimit MemoryLimit::parse(const std::string& text) {
  if (text.empty()) return {};
  const auto bad = [&] {
    return Error(ErrorCode::invalid_argument,
                 "bad memory limit: " + text + " (like 512MiB, 1.5GB, 1000000 or 50%peak)");
  };
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || !(number > 0)) throw bad();
  const std::string unit(rest, end);
  if (unit == "%peak") return {0, number / 100};
  static const std::map<std::string, double> kUnits = {
      {"", 1},     {"B", 1},    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
      {"KB", 1e3}, {"kB", 1e3}, {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12}};
  const auto found = kUnits.find(unit);
  if (found == kUnits.end() || number * found->second < 1 || number * found->second >= 0x1p62) {
    throw bad();
  }
  return {static_cast<std::int64_t>(number * found->second), 0};
}

}  // namespace plimsoll::examples
