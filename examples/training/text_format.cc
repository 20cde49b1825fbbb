// SPDX-License-Identifier: Apache-2.0
#include "examples/training/text_format.h"

#include <array>
#include <cstdio>

namespace plimsoll::examples {

std::string format_bytes(std::int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  std::array<char, 32> text;
  const int digits = unit == 0 ? 0 : value < 100 ? 2 : 1;
  std::snprintf(text.data(), text.size(), "%.*f %s", digits, value, kUnits[unit]);
  return text.data();
}

std::string format_number(double value) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

}  // namespace plimsoll::examples
