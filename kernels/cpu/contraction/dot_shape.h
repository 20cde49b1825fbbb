// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// One operand of a dot as batch x rows x columns over its own bytes, strides in elements.
struct MatrixView {
  std::int64_t row_stride = 0;     // along M (left) or K (right)
  std::int64_t column_stride = 0;  // along K (left) or N (right)
  std::vector<std::int64_t> batch_strides;
  // No single stride runs along M, N or K: the operand is first copied to batch x rows x columns,
  // dense, through `source_*` (the operand's dims in that order, with their strides).
  bool needs_copy = false;
  std::vector<std::int64_t> source_dims, source_strides;
};

// A dot as out[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n], the result dense.
struct DotShape {
  std::vector<std::int64_t> batch_dims;
  std::int64_t batch = 1, m = 1, n = 1, k = 1;
  MatrixView lhs, rhs;

  // Element offsets of batch element `index` in the (possibly copied) operand.
  std::int64_t batch_offset(const MatrixView& view, std::int64_t index) const;
};

// Contracting dimensions are taken in the order that needs the fewest copies; it is a function of
// the shapes, so the order of summation is too.
DotShape read_dot(const ir::Instruction& instruction);

}  // namespace plimsoll::kernels
