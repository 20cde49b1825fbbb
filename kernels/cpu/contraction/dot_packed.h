// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/contraction/dot_kernel.h"
#include "kernels/cpu/products/packed_product.h"

namespace plimsoll::kernels {

// Products of f32 matrices that are so large that all threads share one of them: it is packed once
// (kernels/cpu/products), where the library would pack an operand in every piece that it is given.
// Elements of a batch follow each other.
class PackedDot final : public DotKernel {
 public:
  // Whether a dot of these dtypes and sizes takes less time so than in the library.
  static bool takes(ir::DType lhs, ir::DType rhs, ir::DType result, const DotShape& shape);

  explicit PackedDot(const ir::Instruction& instruction);

 private:
  Status multiply(const void* lhs, const void* rhs, void* out, void* workspace) const override;

  PackedProduct product_;
  std::int64_t packed_;  // where the product's workspace begins
};

}  // namespace plimsoll::kernels
