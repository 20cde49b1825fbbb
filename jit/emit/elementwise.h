// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/ir/module.h"

namespace plimsoll::jit {

// Of the value's elements; an integer as a value of the type of `like`.
inline unsigned bits_of_type(llvm::Value* value) { return value->getType()->getScalarSizeInBits(); }
inline llvm::Value* number(llvm::Value* like, std::int64_t n) {
  return llvm::ConstantInt::getSigned(like->getType(), n);
}

// How elements stand in LLVM values: pred as i1 (one byte in memory), f16 and bf16 as their 16
// bits, all others as themselves; `width` lanes, or a scalar when it is 1.
llvm::Type* register_type(llvm::LLVMContext& context, ir::DType dtype, int width);
llvm::Type* memory_type(llvm::LLVMContext& context, ir::DType dtype, int width);
llvm::Value* to_register(llvm::IRBuilderBase& builder, llvm::Value* value, ir::DType dtype);
llvm::Value* to_memory(llvm::IRBuilderBase& builder, llvm::Value* value, ir::DType dtype);

// `value` (scalar or vector) from one dtype to another, as HLO's convert does.
llvm::Value* emit_convert(llvm::IRBuilderBase& builder, llvm::Value* value, ir::DType from,
                          ir::DType to);

// What is known of a value that is to be rounded: nothing; that operations like +, *, square root
// or a function of bfloat16.h made it of widened operands, so that a NaN is one of theirs or the
// machine's own; that it is a widened operand or a NaN (maximum, minimum).
enum class Origin { any, arithmetic, operand };

// f16 and bf16 to f32 (a NaN may be made quiet) and back (rounded); other floats stay.
llvm::Value* widen_to_float(llvm::IRBuilderBase& builder, llvm::Value* value, ir::DType dtype);
llvm::Value* narrow_from_float(llvm::IRBuilderBase& builder, llvm::Value* value, ir::DType dtype,
                               Origin origin = Origin::any);

// `compute` on widened operands, rounded; null where it gives null. It may be called more than
// once, for some lanes each time.
using FloatComputation = llvm::function_ref<llvm::Value*(llvm::ArrayRef<llvm::Value*>)>;
llvm::Value* compute_as_float(llvm::IRBuilderBase& builder, llvm::ArrayRef<llvm::Value*> operands,
                              ir::DType dtype, Origin origin, FloatComputation compute);

// One elementwise instruction on operands of equal width. `dtypes` are the operands'.
llvm::Value* emit_elementwise(llvm::IRBuilderBase& builder, const ir::Instruction& instruction,
                              std::vector<llvm::Value*> operands, std::vector<ir::DType> dtypes);

// The binary operation `opcode` on two values of `dtype`.
llvm::Value* emit_binary(llvm::IRBuilderBase& builder, ir::Opcode opcode, llvm::Value* a,
                         llvm::Value* b, ir::DType dtype);

// `opcode` as runtime/ir/scalar_function.h says, of one or two values; floats of 16 bits stand
// widened to f32. Null for what takes no such dtype, or is not of that form.
llvm::Value* emit_function(llvm::IRBuilderBase& builder, ir::Opcode opcode,
                           llvm::ArrayRef<llvm::Value*> operands, ir::DType dtype);

// An element of a literal, or a number, as a scalar constant.
llvm::Constant* literal_element(llvm::LLVMContext& context, const ir::Literal& literal,
                                std::int64_t index);

// Functions that generated code calls by name.
struct RuntimeSymbol {
  std::string_view name;
  void* address;
};
std::span<const RuntimeSymbol> runtime_symbols();

}  // namespace plimsoll::jit
