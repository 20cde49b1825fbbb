// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/scalar_function.h"

#include "jit/emit/avx512.h"
#include "jit/emit/elementwise.h"
#include "jit/emit/vector_numbers.h"

namespace plimsoll::jit {
namespace {

using llvm::Value;

template <typename V, typename Make>
Value* emit_with(ir::Opcode opcode, llvm::ArrayRef<Value*> operands, Make make) {
  const V x = make(operands[0]);
  const auto result =
      operands.size() == 1 ? ir::apply(opcode, x) : ir::apply<V>(opcode, x, make(operands[1]));
  return result ? result->value : nullptr;
}

}  // namespace

Value* emit_extreme(llvm::IRBuilderBase& builder, Value* a, Value* b, bool greater) {
  if (Value* result = avx512::extreme(builder, a, b, greater)) return result;
  return builder.CreateBinaryIntrinsic(
      greater ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum, a, b);
}

Value* emit_function(llvm::IRBuilderBase& builder, ir::Opcode opcode,
                     llvm::ArrayRef<Value*> operands, ir::DType dtype) {
  const auto plain = [&]<typename V>(V) {
    return emit_with<V>(opcode, operands, [&](Value* value) { return V{{&builder, value}}; });
  };
  switch (ir::dtype_class(dtype)) {
    case ir::DTypeClass::pred:
      return plain(EmittedMask{});
    case ir::DTypeClass::floating:
      return dtype == ir::DType::f64 ? plain(EmittedF64{}) : plain(EmittedF32{});
    default:
      break;
  }
  const bool is_signed = ir::dtype_class(dtype) == ir::DTypeClass::signed_int;
  return emit_with<EmittedInteger>(
      opcode, operands, [&](Value* value) { return EmittedInteger{{&builder, value}, is_signed}; });
}

}  // namespace plimsoll::jit
