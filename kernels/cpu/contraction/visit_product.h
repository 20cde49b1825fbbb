// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "kernels/cpu/products/packed_product.h"
#include "runtime/device/kernel.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

inline bool is_signed_or_unsigned_byte(ir::DType dtype) {
  return dtype == ir::DType::s8 || dtype == ir::DType::u8;
}

// The loops that multiply operands of these dtypes as T, the fastest; of bytes null if there are
// none.
template <typename T>
const ProductLoops<T>* dot_loops(ir::DType lhs, ir::DType rhs) {
  if constexpr (std::is_same_v<T, std::uint8_t>) {
    return byte_product_loops(lhs == ir::DType::s8, rhs == ir::DType::s8);
  } else {
    return &product_loops<T>();
  }
}

// The kernel that `make` makes of a zero of the type by which our own products
// (kernels/cpu/products) multiply the dot's operands: integers of both signs as unsigned ones, bf16
// where the machine multiplies pairs of it, bytes of either sign where it adds up four products of
// them. Null for dots that they don't multiply.
template <typename Make>
std::shared_ptr<const device::Kernel> visit_product(const ir::Instruction& instruction,
                                                    const Make& make) {
  const ir::DType dtype = instruction.operand(0)->shape().dtype();
  const ir::DType result = instruction.shape().dtype();
  const ir::DType rhs = instruction.operand(1)->shape().dtype();
  if (is_signed_or_unsigned_byte(dtype) && is_signed_or_unsigned_byte(rhs)) {
    const bool is_whole =
        is_signed_or_unsigned_byte(result) || result == ir::DType::s32 || result == ir::DType::u32;
    if (!is_whole || dot_loops<std::uint8_t>(dtype, rhs) == nullptr) return nullptr;
    return make(std::uint8_t{});
  }
  if (rhs != dtype) return nullptr;
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
