// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "runtime/ir/module.h"

namespace plimsoll::planner {

// What is known of every element of a value.
struct ValueFacts {
  bool integral = false;           // an integer from low to high, not a negative zero
  std::int64_t low = 0, high = 0;  // when integral
  bool bf16 = false, f16 = false;  // representable there, bit for bit
};

// Proves facts from the instructions that compute a value, into and out of fusions and calls,
// within a bounded number of them for each. Remembers: ask about a computation's values in their
// order.
class FactFinder {
 public:
  ValueFacts find(const ir::Instruction& instruction, int leaf);

 private:
  std::map<std::pair<const ir::Instruction*, int>, ValueFacts> known_;
};

}  // namespace plimsoll::planner
