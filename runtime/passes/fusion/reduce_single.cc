// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/shapes/builder.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"

namespace plimsoll::passes {

using ir::DType;
using ir::Instruction;
using ir::Opcode;

namespace {

Instruction* reduce_by_operation(Rewriter& rewriter, Instruction& reduce) {
  if (reduce.opcode() != Opcode::reduce || reduce.operand_count() != 2 ||
      !reduce.shape().is_array() || reduce.shape().element_count() == 0 ||
      reduce.operand(0)->shape().element_count() != reduce.shape().element_count()) {
    return nullptr;
  }
  const DType dtype = reduce.shape().dtype();
  const auto operation = ir::plain_operation(*reduce.to_apply());
  // Kernels reduce preds otherwise than they compute.
  if (!operation || dtype == DType::pred || reduce.operand(0)->shape().dtype() != dtype ||
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
