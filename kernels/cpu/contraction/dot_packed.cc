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

bool PackedDot::takes_constant(const ir::Instruction& instruction, const DotShape& shape) {
  constexpr std::int64_t kLeastColumns = 64, kLeastDepth = 32, kLeastProducts = 1 << 18;
  const auto is_f32 = [](const ir::Shape& s) { return s.dtype() == ir::DType::f32; };
  return instruction.operand(1)->opcode() == ir::Opcode::constant &&
         is_f32(instruction.operand(0)->shape()) && is_f32(instruction.operand(1)->shape()) &&
         is_f32(instruction.shape()) && shape.batch == 1 && !shape.rhs.needs_copy && shape.m > 1 &&
         shape.n >= kLeastColumns && shape.k >= kLeastDepth &&
         shape.m * shape.n >= kLeastProducts / shape.k;
}

PackedDot::PackedDot(const ir::Instruction& instruction)
    : DotKernel(instruction, "dot.packed", device::KernelOrigin::own),
      product_(shape_.m, shape_.n, shape_.k) {
  std::int64_t bytes = product_.workspace_bytes();
  // The kernel that takes it prepared may have no more workspace than this.
  if (shape_.batch == 1 && !shape_.rhs.needs_copy && shape_.n >= PreparedProduct::kLeastColumns) {
    by_prepared_.emplace(shape_.m, shape_.n, shape_.k);
    bytes = std::max(bytes, by_prepared_->workspace_bytes());
  }
  packed_ = reserve_workspace(bytes);
}

Status PackedDot::multiply(const void* lhs, const void* rhs, void* out, void* workspace) const {
  for (std::int64_t b = 0; b < shape_.batch; ++b) {
    const MatrixRows rows(static_cast<const float*>(lhs) + shape_.batch_offset(shape_.lhs, b),
                          {shape_.lhs.row_stride, shape_.lhs.column_stride});
    float* const to = static_cast<float*>(out) + b * shape_.m * shape_.n;
    void* const packed = byte_offset(workspace, packed_);
    if (takes_prepared_) {
      by_prepared_->run(rows, static_cast<const float*>(rhs), to, shape_.n, packed);
    } else {
      product_.run(rows, static_cast<const float*>(rhs) + shape_.batch_offset(shape_.rhs, b),
                   {shape_.rhs.row_stride, shape_.rhs.column_stride}, to, shape_.n, packed);
    }
  }
  return ok_status();
}

std::int64_t PackedDot::prepared_bytes() const {
  if (!by_prepared_.has_value() || takes_prepared_) return 0;
  return shape_.n * shape_.k * std::int64_t{sizeof(float)};
}

Status PackedDot::prepare(const void* plain, void* prepared) const {
  by_prepared_->prepare(static_cast<const float*>(plain),
                        {shape_.rhs.row_stride, shape_.rhs.column_stride},
                        static_cast<float*>(prepared));
  return ok_status();
}

std::shared_ptr<const device::Kernel> PackedDot::taking_prepared() const {
  auto kernel = std::make_shared<PackedDot>(*this);
  kernel->takes_prepared_ = true;
  return kernel;
}

}  // namespace plimsoll::kernels
