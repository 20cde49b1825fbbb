// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll::examples {

// `43.1 MiB`: a byte count with three or four digits and a binary unit.
std::string format_bytes(std::int64_t bytes);
// Four significant digits.
std::string format_number(double value);

}  // namespace plimsoll::examples
