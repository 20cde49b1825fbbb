// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "runtime/ir/shapes/builder.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::DType;
using ir::Instruction;
using ir::Opcode;

namespace {

// The one operation of a reducer on elements of `dtype`; nothing where kernels reduce otherwise
// than they compute.
std::optional<Opcode> only_operation(const Computation& reducer, DType dtype) {
  if (dtype == DType::pred) return std::nullopt;
  for (const Opcode opcode : {Opcode::add, Opcode::multiply, Opcode::maximum, Opcode::minimum,
                              Opcode::and_, Opcode::or_, Opcode::xor_}) {
    if (ir::is_binary_computation(reducer, opcode)) return opcode;
  }
  return std::nullopt;
}

Instruction* reduce_by_operation(Rewriter& rewriter, Instruction& reduce) {
  if (reduce.opcode() != Opcode::reduce || reduce.operand_count() != 2 ||
      !reduce.shape().is_array() || reduce.shape().element_count() == 0 ||
      reduce.operand(0)->shape().element_count() != reduce.shape().element_count()) {
    return nullptr;
  }
  const DType dtype = reduce.shape().dtype();
  const auto operation = only_operation(*reduce.to_apply(), dtype);
  if (!operation || reduce.operand(0)->shape().dtype() != dtype ||
      reduce.operand(1)->shape().dtype() != dtype ||
      reduce.to_apply()->root()->shape().dtype() != dtype) {
    return nullptr;
  }
  Instruction* initial = rewriter.add(Opcode::broadcast, reduce.shape(), {reduce.operand(1)});
  Instruction* element = rewriter.add(Opcode::reshape, reduce.shape(), {reduce.operand(0)});
  return rewriter.add(*operation, reduce.shape(), {initial, element});
}

}  // namespace

// JAX writes the sum of a norm's gradient over a dimension of one element, from 0, between sums
// over rows: as a reduction it would part them, as an addition it is a value of the row.
Result<bool> reduce_single(ir::Module& module) {
  return sweep_programs(module, reduce_by_operation);
}

}  // namespace plimsoll::passes
