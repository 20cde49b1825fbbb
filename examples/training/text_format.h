// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/base/byte_size.h"  // format_bytes

namespace plimsoll::examples {

// Four significant digits.
std::string format_number(double value);

}  // namespace plimsoll::examples
