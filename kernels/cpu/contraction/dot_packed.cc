// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contraction/dot_packed.h"

#include <algorithm>

namespace plimsoll::kernels {

// Below these, packing is a large part of the work, and the library's own cut is as good or better.
bool PackedDot::takes(ir::DType lhs, ir::DType rhs, ir::DType result, const DotShape& shape) {
  constexpr std::int64_t kLeastRows = 241, kLeastColumns = 384;
  constexpr std::int64_t kLeastElements = 3 << 15, kLeastProducts = 1 << 27;
  const std::int64_t elements = shape.m * shape.n;
  return lhs == ir::DType::f32 && rhs == ir::DType::f32 && result == ir::DType::f32 &&
         shape.batch > 0 && shape.k > 0 && shape.m >= kLeastRows && shape.n >= kLeastColumns &&
         elements >= kLeastElements && elements >= kLeastProducts / shape.k;
}

PackedDot::PackedDot(const ir::Instruction& instruction)
    : DotKernel(instruction, "dot.packed", device::KernelOrigin::own),
      product_(shape_.m, shape_.n, shape_.k),
      packed_(reserve_workspace(product_.workspace_bytes())) {}

Status PackedDot::multiply(const void* lhs, const void* rhs, void* out, void* workspace) const {
  for (std::int64_t b = 0; b < shape_.batch; ++b) {
    const MatrixRows rows(static_cast<const float*>(lhs) + shape_.batch_offset(shape_.lhs, b),
                          {shape_.lhs.row_stride, shape_.lhs.column_stride});
    product_.run(rows, static_cast<const float*>(rhs) + shape_.batch_offset(shape_.rhs, b),
                 {shape_.rhs.row_stride, shape_.rhs.column_stride},
                 static_cast<float*>(out) + b * shape_.m * shape_.n, shape_.n,
                 byte_offset(workspace, packed_));
  }
  return ok_status();
}

}  // namespace plimsoll::kernels
