// SPDX-License-Identifier: Apache-2.0
#include "examples/training/text_format.h"

#include <array>
#include <cstdio>

namespace plimsoll::examples {

std::string format_number(double value) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

}  // namespace plimsoll::examples
