// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/ir/attributes.h"
#include "runtime/ir/opcode.h"

// Elementwise operations on raw arrays, for interpreter*.cc and for kernels that apply a scalar
// computation to many elements.
namespace plimsoll::ir::interpreter {

// `count` elements, or one that stands for all of them.
struct View {
  DType dtype;
  const std::byte* data;
  bool repeats = false;
};

// result[i] = opcode(operands[0][i], ...), for every opcode of class unary, binary and ternary
// whose result has the operands' element count. Operands of different float dtypes meet in the
// widest one. `result` may be one of the operands' arrays.
void apply_elementwise(Opcode opcode, const Attributes& attributes, std::span<const View> operands,
                       DType result_dtype, std::byte* result, std::int64_t count);

// HLO's convert: float to integer saturates, NaN becomes 0, to pred is "not zero", integers wrap,
// f16 and bf16 go through f32.
void convert_elements(const View& from, DType to_dtype, std::byte* to, std::int64_t count);

// The wider of two float dtypes (f32 for f16 with bf16); for anything else `a`.
DType meeting_dtype(DType a, DType b);

void apply_unary(Opcode opcode, const Attributes& attributes, const View& operand,
                 std::byte* result, std::int64_t count);
void apply_binary(Opcode opcode, const View& a, const View& b, std::byte* result,
                  std::int64_t count);
void apply_compare(const Attributes& attributes, const View& a, const View& b, std::byte* result,
                   std::int64_t count);

}  // namespace plimsoll::ir::interpreter
