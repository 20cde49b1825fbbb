// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/contraction/dot_shape.h"
#include "kernels/cpu/kernel_base.h"

namespace plimsoll::kernels {

// What every dot kernel does around its loops: empty cases, and operands that no single stride
// walks are copied into the workspace first.
class DotKernel : public KernelBase {
 public:
  DotKernel(const ir::Instruction& instruction, const char* name, device::KernelOrigin origin);

  Status launch(device::Stream&, const device::KernelArguments& arguments) const final;

 protected:
  virtual Status multiply(const void* lhs, const void* rhs, void* out, void* workspace) const = 0;

  DotShape shape_;
  ir::DType lhs_dtype_, rhs_dtype_, result_dtype_;

 private:
  static const void* prepare(const MatrixView& view, ir::DType dtype, const void* data,
                             const device::KernelArguments& arguments, std::int64_t offset);

  std::int64_t lhs_copy_ = 0, rhs_copy_ = 0;
};

}  // namespace plimsoll::kernels
