// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/contraction/dot_kernel.h"

namespace plimsoll::kernels {

// Products of matrices of at most 16 rows and columns each, one or many, of f32, f64 or integers of
// 32 or 64 bits (small_products.h).
class SmallDot final : public DotKernel {
 public:
  explicit SmallDot(const ir::Instruction& instruction);

  static bool takes(ir::DType lhs, ir::DType rhs, ir::DType result, const DotShape& shape);

 private:
  Status multiply(const void* lhs, const void* rhs, void* out, void* workspace) const override;
};

}  // namespace plimsoll::kernels
