// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/simplify/simplify_rules.h"

namespace plimsoll::passes {

using ir::ComparisonDirection;
using ir::Instruction;
using ir::Literal;
using ir::Opcode;
using ir::Shape;

namespace {

Instruction* simplify_select(Rewriter& rewriter, Instruction& at) {
  Instruction* predicate = at.operand(0);
  Instruction* yes = at.operand(1);
  Instruction* no = at.operand(2);
  const auto keeps_type = [&](const Instruction* value) { return value->shape() == at.shape(); };
  if (yes == no && keeps_type(yes)) return yes;
  if (const Literal* value = splat_value(*predicate)) {
    Instruction* chosen = value->data<bool>()[0] ? yes : no;
    return keeps_type(chosen) ? chosen : nullptr;
  }
  if (at.shape().dtype() == ir::DType::pred && keeps_type(predicate)) {
    if (is_splat_of(*yes, 1) && is_splat_of(*no, 0)) return predicate;
    if (is_splat_of(*yes, 0) && is_splat_of(*no, 1)) {
      return rewriter.add(Opcode::not_, at.shape(), {predicate});
    }
  }
  if (predicate->opcode() == Opcode::not_) {
    return rewriter.add(Opcode::select, at.shape(), {predicate->operand(0), no, yes});
  }
  return nullptr;
}

Instruction* simplify_compare(Rewriter& rewriter, Instruction& at) {
  // A NaN does not equal itself; integers do.
  if (at.operand(0) != at.operand(1) || is_floating(at.operand(0)->shape().dtype())) return nullptr;
  const ComparisonDirection direction = at.attributes().comparison_direction;
  const bool value = direction == ComparisonDirection::eq || direction == ComparisonDirection::ge ||
                     direction == ComparisonDirection::le;
  return rewriter.add_splat(at.shape(), Literal::scalar(value));
}

}  // namespace

Instruction* simplify_logic(Rewriter& rewriter, Instruction& at) {
  switch (at.opcode()) {
    case Opcode::select:
      return simplify_select(rewriter, at);
    case Opcode::compare:
      return simplify_compare(rewriter, at);
    case Opcode::not_:
      return at.operand(0)->opcode() == Opcode::not_ ? at.operand(0)->operand(0) : nullptr;
    case Opcode::and_:
    case Opcode::or_:
    case Opcode::xor_:
      break;
    default:
      return nullptr;
  }
  Instruction* a = at.operand(0);
  Instruction* b = at.operand(1);
  const Literal zero(Shape(at.shape().dtype(), {}));
  if (at.opcode() == Opcode::xor_) {
    if (a == b) return rewriter.add_splat(at.shape(), zero);
    if (is_splat_of(*a, 0)) return b;
    if (is_splat_of(*b, 0)) return a;
    return nullptr;
  }
  if (a == b) return a;
  const bool conjunction = at.opcode() == Opcode::and_;
  for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)}) {
    const bool zeros = is_splat_of(*one, 0), ones = is_all_ones(*one);
    if (conjunction ? ones : zeros) return other;
    if (conjunction ? zeros : ones) return one;
  }
  return nullptr;
}

}  // namespace plimsoll::passes
