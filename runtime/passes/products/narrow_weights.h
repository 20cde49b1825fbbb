// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/ir/module.h"

// Products by weights that are computed, element by element, from fewer bytes: of 8 bits and a
// scale, say, or of bf16 for a product of f32. Such weights need never be there as wide as the
// product reads them.
namespace plimsoll::passes {

// A dot without batch dims that sums over one dim of each side, one of whose operands is taken for
// the weights.
struct ProductSides {
  int rows = 0;                                    // the other operand's number
  std::int64_t row_count = 0, depth = 0;           // its elements are row_count times depth
  std::int64_t rows_depth = 0, weights_depth = 0;  // the dims that are summed over

  const ir::Instruction& rows_of(const ir::Instruction& dot) const { return *dot.operand(rows); }
  const ir::Instruction& weights_of(const ir::Instruction& dot) const {
    return *dot.operand(1 - rows);
  }
};

// Both ways to take a dot of floats of at most 32 bits for one; none where it is another dot.
std::vector<ProductSides> sides_of(const ir::Instruction& dot);

// What lies between weights and a product's operand.
enum class OnTheWay : std::uint8_t {
  elementwise,  // operations on elements, broadcasts, reshapes
  joined,       // and concatenations
};

// Whether the value is computed so, for one reader, and stands in nobody's way.
bool is_on_the_way(const ir::Instruction& value, OnTheWay what);

// The bytes of what a product's operand is computed from so, where nothing but products reads it;
// null: it isn't, or by too much.
std::optional<std::int64_t> bytes_behind(const ir::Instruction& weights, OnTheWay what);

// Whether those are about half of the operand's bytes (and scales) or fewer.
bool is_widened(const ir::Instruction& weights, OnTheWay what);

}  // namespace plimsoll::passes
