// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cpu/products/packed_product.h"
#include "runtime/device/kernel.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// The kernel that `make` makes of a zero of the type by which our own products
// (kernels/cpu/products) multiply the dot's operands: integers of both signs as unsigned ones, bf16
// where the machine multiplies pairs of it. Null for dots that they don't multiply.
template <typename Make>
std::shared_ptr<const device::Kernel> visit_product(const ir::Instruction& instruction,
                                                    const Make& make) {
  const ir::DType dtype = instruction.operand(0)->shape().dtype();
  const ir::DType result = instruction.shape().dtype();
  if (instruction.operand(1)->shape().dtype() != dtype) return nullptr;
  if (dtype == ir::DType::bf16 && (result == dtype || result == ir::DType::f32)) {
    if (product_loops<Bfloat16>(ProductInstructions::avx512) == nullptr) return nullptr;
    return make(Bfloat16{});
  }
  if (result != dtype) return nullptr;
  switch (dtype) {
    case ir::DType::f32:
      return make(float{});
    case ir::DType::f64:
      return make(double{});
    case ir::DType::s32:
    case ir::DType::u32:
      return make(std::uint32_t{});
    case ir::DType::s64:
    case ir::DType::u64:
      return make(std::uint64_t{});
    default:
      return nullptr;
  }
}

}  // namespace plimsoll::kernels
