// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "kernels/cpu/contraction/dot_kernel.h"
#include "kernels/cpu/products/packed_product.h"
#include "kernels/cpu/products/prepared_product.h"
#include "runtime/device/input_preparation.h"

namespace plimsoll::kernels {

// Products of f32 matrices that are so large that all threads share one of them, or by constants:
// an operand is packed once (kernels/cpu/products), where the library would pack it in every piece
// that it is given. Elements of a batch follow each other. A right operand without a batch may come
// prepared.
class PackedDot final : public DotKernel, public device::InputPreparation {
 public:
  // Whether a dot of these dtypes and sizes takes less time so than in the library.
  static bool takes(ir::DType lhs, ir::DType rhs, ir::DType result, const DotShape& shape);
  // Whether its right operand is a constant, which is packed once, and large enough to gain by it.
  static bool takes_constant(const ir::Instruction& instruction, const DotShape& shape);

  explicit PackedDot(const ir::Instruction& instruction);

  const device::InputPreparation* input_preparation() const override {
    return by_prepared_ ? this : nullptr;
  }
  int prepared_input() const override { return 1; }
  std::int64_t prepared_bytes() const override;
  Status prepare(const void* plain, void* prepared) const override;
  std::shared_ptr<const device::Kernel> taking_prepared() const override;

 private:
  Status multiply(const void* lhs, const void* rhs, void* out, void* workspace) const override;

  PackedProduct product_;
  std::optional<PreparedProduct> by_prepared_;  // where the right operand may come so
  bool takes_prepared_ = false;
  std::int64_t packed_;  // where the product's workspace begins
};

}  // namespace plimsoll::kernels
