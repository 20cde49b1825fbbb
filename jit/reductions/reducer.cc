// SPDX-License-Identifier: Apache-2.0
#include "jit/reductions/reducer.h"

#include <limits>

#include "jit/emit/elementwise.h"
#include "jit/graph/reduction_order.h"
#include "runtime/base/index.h"
#include "runtime/ir/shapes/builder.h"

namespace plimsoll::jit {
namespace {

using ir::DType;
using ir::Opcode;

bool is_small_float(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

llvm::Constant* float_constant(llvm::LLVMContext& context, DType dtype, double value) {
  ir::Literal literal(ir::Shape(dtype, {}));
  literal.set(0, value);
  return literal_element(context, literal, 0);
}

// The neutral element of a plain binary operation, or null.
//
// An identity lets lanes start full and lets masked lanes take part, with no test per element. It
// must change no bit: for float sums it is -0, not 0, as 0 + -0 is 0. Maxima start from minus
// infinity. Where there is none, accumulators start empty, and the first element is taken as it is
// (Reducer::starts_full).
llvm::Constant* neutral(llvm::LLVMContext& context, const ir::Computation& computation,
                        DType dtype) {
  const bool is_float = ir::is_floating(dtype);
  const bool is_signed = ir::dtype_class(dtype) == ir::DTypeClass::signed_int;
  llvm::Type* type = register_type(context, dtype, 1);
  const unsigned bits = type->getScalarSizeInBits();
  const auto integer = [&](const llvm::APInt& value) {
    return llvm::ConstantInt::get(type, value);
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (ir::is_binary_computation(computation, Opcode::add)) {
    // -0 + x is x, for x = -0 too.
    return is_float ? float_constant(context, dtype, -0.0) : integer(llvm::APInt(bits, 0));
  }
  if (ir::is_binary_computation(computation, Opcode::multiply)) {
    return is_float ? float_constant(context, dtype, 1) : integer(llvm::APInt(bits, 1));
  }
  if (ir::is_binary_computation(computation, Opcode::maximum)) {
    if (is_float) return float_constant(context, dtype, -kInfinity);
    return integer(is_signed ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt(bits, 0));
  }
  if (ir::is_binary_computation(computation, Opcode::minimum)) {
    if (is_float) return float_constant(context, dtype, kInfinity);
    return integer(is_signed ? llvm::APInt::getSignedMaxValue(bits)
                             : llvm::APInt::getMaxValue(bits));
  }
  if (is_float) return nullptr;
  if (ir::is_binary_computation(computation, Opcode::and_)) {
    return integer(llvm::APInt::getAllOnes(bits));
  }
  if (ir::is_binary_computation(computation, Opcode::or_) ||
      ir::is_binary_computation(computation, Opcode::xor_)) {
    return integer(llvm::APInt(bits, 0));
  }
  return nullptr;
}

// Accumulates f16 or bf16 in f32.
bool accumulates_wide(const Reducer& reducer) {
  return reducer.components() == 1 && reducer.accumulators[0] != reducer.dtypes[0];
}

}  // namespace

std::vector<Reducer> make_reducers(const KernelGraph& graph, llvm::LLVMContext& context) {
  std::vector<Reducer> reducers;
  int next = 0;
  for (const ir::Instruction* reduce : graph.reduces()) {
    Reducer reducer;
    reducer.reduce = reduce;
    reducer.first = next;
    const ir::Computation& computation = *reduce->to_apply();
    for (int i = 0; i < reduce->operand_count() / 2; ++i) {
      const DType dtype = computation.parameters()[at(i)]->shape().dtype();
      reducer.dtypes.push_back(dtype);
      reducer.accumulators.push_back(dtype);
    }
    if (reducer.components() == 1) {
      if (is_small_float(reducer.dtypes[0]) &&
          (ir::is_binary_computation(computation, Opcode::add) ||
           ir::is_binary_computation(computation, Opcode::multiply) ||
           ir::is_binary_computation(computation, Opcode::maximum) ||
           ir::is_binary_computation(computation, Opcode::minimum))) {
        reducer.accumulators[0] = DType::f32;
      }
      if (auto* identity = neutral(context, computation, reducer.accumulators[0])) {
        reducer.identity.push_back(identity);
      }
    }
    reducer.in_order = must_run_in_order(computation);
    next += reducer.components();
    reducers.push_back(std::move(reducer));
  }
  return reducers;
}

std::vector<llvm::Value*> combine(ValueEmitter& emitter, llvm::IRBuilder<>& builder,
                                  const Reducer& reducer, const std::vector<llvm::Value*>& a,
                                  const std::vector<llvm::Value*>& b) {
  if (accumulates_wide(reducer)) {
    return {
        emit_binary(builder, reducer.reduce->to_apply()->root()->opcode(), a[0], b[0], DType::f32)};
  }
  std::vector<llvm::Value*> arguments = a;
  arguments.insert(arguments.end(), b.begin(), b.end());
  const ir::Computation& computation = *reducer.reduce->to_apply();
  const ir::Instruction& root = *computation.root();
  std::vector<llvm::Value*> results = emitter.apply(computation, arguments);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const ir::Shape& shape =
        root.shape().is_tuple() ? root.operand(static_cast<int>(i))->shape() : root.shape();
    results[i] = emit_convert(builder, results[i], shape.dtype(), reducer.accumulators[i]);
  }
  return results;
}

}  // namespace plimsoll::jit
