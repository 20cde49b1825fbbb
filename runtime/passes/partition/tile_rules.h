// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/ir/module.h"
#include "runtime/ir/sharding.h"

namespace plimsoll::passes {

// By dimension of one array, the dimension of another that it goes along with; -1: none.
using Along = std::vector<int>;

inline bool holds(const std::vector<std::int64_t>& dimensions, std::int64_t one) {
  return std::find(dimensions.begin(), dimensions.end(), one) != dimensions.end();
}

// How an array is held whose dimensions go along with those of one that is held by `from`:
// partitions that differ in other dimensions alone hold copies.
ir::Sharding carried(const ir::Sharding& from, const Along& along, std::int64_t partitions);

// What an instruction does to the dimensions of its operands, seen from one of them.
struct Rule {
  std::vector<Along> operands;  // by operand: the dimensions of the seen one; empty: taken whole
  Along result;                 // by dimension of the result, or of each array that it has
  ir::Computation* reducer = nullptr;  // of dimensions that the result has not; null: a sum
};

// None: what it makes of a tile of that operand, held as `seen` says, is no tile of its result.
std::optional<Rule> rule_of(const ir::Instruction& at, int operand, const ir::Sharding& seen);

// Whatever the program says of how they are held.
bool are_zeros(const ir::Instruction& value);

// Whether a reduction may have its initial value once more among what it reduces: sums from zero,
// and what may be counted several times.
bool starts_from_nothing(const ir::Computation& reducer, const ir::Instruction& initial);

}  // namespace plimsoll::passes
