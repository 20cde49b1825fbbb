// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace plimsoll::ir {

// What is known of every element of a value: what a codec that gives every bit back is chosen by.
struct ValueFacts {
  bool integral = false;           // an integer from low to high, not a negative zero
  std::int64_t low = 0, high = 0;  // when integral
  bool bf16 = false, f16 = false;  // representable there, bit for bit
};

}  // namespace plimsoll::ir
