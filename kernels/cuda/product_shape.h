// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/ir/module.h"

namespace plimsoll::kernels::cuda {

// A matrix as it lies, strides in elements.
struct ProductOperand {
  bool is_transposed = false;     // its columns lie one after the other, not its rows
  std::int64_t leading = 1;       // from one row (column) to the next
  std::int64_t batch_stride = 0;  // from one product of a batch to the next; 0: there is one
  friend auto operator<=>(const ProductOperand&, const ProductOperand&) = default;
};

// Calls of one kind, `count` of them, and how far each begins from the one before.
struct ProductTurn {
  std::int64_t count = 1, lhs_stride = 0, rhs_stride = 0, result_stride = 0;
  friend auto operator<=>(const ProductTurn&, const ProductTurn&) = default;
};

// A dot as products of matrices without copies: result[b, m, n] = sum over k of lhs[b, m, k] *
// rhs[b, k, n], each product of the result dense. Batch dims of no common stride are `turns`: the
// same call once for each of their indices, the last turn the innermost.
struct ProductShape {
  ir::DType operands = ir::DType::f32, result = ir::DType::f32;
  std::int64_t m = 1, n = 1, k = 1, batch = 1;
  ProductOperand lhs, rhs;
  std::int64_t result_batch_stride = 0;
  std::vector<ProductTurn> turns;

  std::int64_t calls() const;
  friend auto operator<=>(const ProductShape&, const ProductShape&) = default;
};

// More calls than that are left to a kernel of one launch.
inline constexpr std::int64_t kMostProductCalls = 32;

// What the dot is in these terms: the same for every way to write it that differs in dims of size 1
// alone. Nothing where an operand would have to be copied, or dtypes, or sizes, are none that the
// library multiplies: two operands of one of f32, f64, f16, bf16 with a result of the same (f16 and
// bf16: also of f32), or s8 with s32 where no sum overflows.
std::optional<ProductShape> read_product(const ir::Instruction& dot);

}  // namespace plimsoll::kernels::cuda
