// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contraction/dot_kernel.h"

#include <cstring>

#include "kernels/cpu/contraction/strided_copy.h"

namespace plimsoll::kernels {

DotKernel::DotKernel(const ir::Instruction& instruction, const char* name,
                     device::KernelOrigin origin)
    : KernelBase(name, origin),
      shape_(read_dot(instruction)),
      lhs_dtype_(instruction.operand(0)->shape().dtype()),
      rhs_dtype_(instruction.operand(1)->shape().dtype()),
      result_dtype_(instruction.shape().dtype()) {
  if (shape_.lhs.needs_copy) {
    lhs_copy_ = reserve_workspace(shape_.batch * shape_.m * shape_.k * dtype_bytes(lhs_dtype_));
  }
  if (shape_.rhs.needs_copy) {
    rhs_copy_ = reserve_workspace(shape_.batch * shape_.k * shape_.n * dtype_bytes(rhs_dtype_));
  }
}

Status DotKernel::launch(device::Stream&, const device::KernelArguments& arguments) const {
  const std::int64_t count = shape_.batch * shape_.m * shape_.n;
  if (count == 0) return ok_status();
  if (shape_.k == 0) {
    std::memset(arguments.outputs[0], 0,
                static_cast<std::size_t>(count * dtype_bytes(result_dtype_)));
    return ok_status();
  }
  const void* lhs = prepare(shape_.lhs, lhs_dtype_, arguments.inputs[0], arguments, lhs_copy_);
  const void* rhs = prepare(shape_.rhs, rhs_dtype_, arguments.inputs[1], arguments, rhs_copy_);
  return multiply(lhs, rhs, arguments.outputs[0], arguments.workspace);
}

const void* DotKernel::prepare(const MatrixView& view, ir::DType dtype, const void* data,
                               const device::KernelArguments& arguments, std::int64_t offset) {
  if (!view.needs_copy) return data;
  void* copy = byte_offset(arguments.workspace, offset);
  copy_to_dense(view.source_dims, view.source_strides, dtype_bytes(dtype), data, copy);
  return copy;
}

}  // namespace plimsoll::kernels
