// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/simplify/simplify_rules.h"

namespace plimsoll::passes {

using ir::Instruction;
using ir::Opcode;
using ir::Shape;

Instruction* sink_broadcasts(Rewriter& rewriter, Instruction& at) {
  if (!is_elementwise(at.opcode()) || at.opcode() == Opcode::copy ||
      at.opcode() == Opcode::bitcast_convert || !at.shape().is_array() ||
      at.shape().element_count() <= 1) {
    return nullptr;
  }
  // All wide operands are the same broadcast of equal dims, or of scalars.
  const Instruction* pattern = nullptr;
  for (const Instruction* operand : at.operands()) {
    if (operand->shape().is_scalar()) continue;
    if (operand->opcode() != Opcode::broadcast) return nullptr;
    if (operand->operand(0)->shape().is_scalar()) {
      if (pattern == nullptr) pattern = operand;
      continue;
    }
    const bool first = pattern == nullptr || pattern->operand(0)->shape().is_scalar();
    if (!first && (pattern->attributes().dimensions != operand->attributes().dimensions ||
                   !(pattern->operand(0)->shape().dims() == operand->operand(0)->shape().dims()))) {
      return nullptr;
    }
    if (first) pattern = operand;
  }
  if (pattern == nullptr) return nullptr;
  const ir::Dims dims = pattern->operand(0)->shape().dims();
  if (Shape(at.shape().dtype(), dims).element_count() >= at.shape().element_count()) return nullptr;

  std::vector<Instruction*> narrow;
  for (Instruction* operand : at.operands()) {
    Instruction* value = operand->shape().is_scalar() ? operand : operand->operand(0);
    // clamp and select take scalars as they are.
    if (!operand->shape().is_scalar() && !(value->shape().dims() == dims)) {
      value = rewriter.add(Opcode::broadcast, Shape(value->shape().dtype(), dims), {value});
    }
    narrow.push_back(value);
  }
  ir::Attributes attributes = at.attributes();
  Instruction* result =
      rewriter.add(at.opcode(), Shape(at.shape().dtype(), dims), std::move(narrow), attributes);
  ir::Attributes broadcast;
  broadcast.dimensions = pattern->attributes().dimensions;
  return rewriter.add(Opcode::broadcast, at.shape(), {result}, std::move(broadcast));
}

}  // namespace plimsoll::passes
