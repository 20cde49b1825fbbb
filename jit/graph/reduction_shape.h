// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "jit/graph/graph.h"

namespace plimsoll::jit {

inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// How a reduction is cut and combined. Everything here follows from the operand's dims and the
// reduced dimensions alone, so that neither fusion, nor threads, nor the machine's vectors change a
// bit.
//
// Dimensions of size 1 drop out and neighbours of one kind merge, which leaves alternating kept and
// reduced groups. The elements of one result are taken in row-major order of the reduced groups.
//   Rows (the minor group is reduced, `minor` elements): a block is `block_rows` rows, or
//   `block_minor` elements of one. In a block lane l of `lanes` takes elements l, l + lanes, ... of
//   each row in turn; then lane i takes in lane i + lanes/2, and so on by halves.
//   Columns (the minor group is kept): a block is `block_rows` elements; lane l of `lanes` takes
//   elements l, l + lanes, ...; then the lanes are combined in order.
// The blocks' results are combined in order, after the initial value. `in_order`: one lane and one
// block.
struct ReductionShape {
  bool rows = true;
  ir::Dims dims;  // of the operand
  std::vector<std::int64_t> kept_extents, reduced_extents, kept_strides, reduced_strides;
  std::int64_t kept = 1, reduced = 1;  // products
  std::int64_t minor = 1;              // extent of the minor group
  std::int64_t lanes = 1;
  std::int64_t block_rows = 1, block_minor = 1;
  std::int64_t row_blocks = 1, minor_blocks = 1;

  // Reduced rows: of `minor` elements, or (columns) of one.
  std::int64_t row_count() const {
    return rows ? reduced / std::max<std::int64_t>(minor, 1) : reduced;
  }
  std::int64_t blocks() const { return row_blocks * minor_blocks; }

  static ReductionShape of(const ir::Dims& dims, const std::vector<std::int64_t>& reduced_dims,
                           bool in_order);

  // The operand's index of element (`kept_position`, `reduced_position`), both row-major.
  Index operand_index(IndexSpace& space, const Affine& kept_position,
                      const Affine& reduced_position) const;
};

}  // namespace plimsoll::jit
