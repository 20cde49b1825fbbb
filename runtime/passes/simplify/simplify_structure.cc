// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "runtime/ir/shapes/builder.h"
#include "runtime/passes/simplify/simplify_rules.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::DType;
using ir::Instruction;
using ir::Literal;
using ir::Opcode;

namespace {

Instruction* simplify_tuple(Instruction& at) {
  if (at.operand_count() == 0) return nullptr;
  Instruction* source = nullptr;
  for (int i = 0; i < at.operand_count(); ++i) {
    const Instruction* element = at.operand(i);
    if (element->opcode() != Opcode::get_tuple_element || element->attributes().tuple_index != i) {
      return nullptr;
    }
    if (source != nullptr && element->operand(0) != source) return nullptr;
    source = element->operand(0);
  }
  return source->shape() == at.shape() ? source : nullptr;
}

Instruction* simplify_conditional(Rewriter& rewriter, Instruction& at) {
  const Literal* selector = splat_value(*at.operand(0));
  if (selector == nullptr) return nullptr;
  const auto branches = static_cast<std::int32_t>(at.called_computations().size());
  std::int32_t chosen = 0;
  if (at.operand(0)->shape().dtype() == DType::pred) {
    chosen = selector->data<bool>()[0] ? 0 : 1;
  } else {
    chosen = selector->data<std::int32_t>()[0];
    if (chosen < 0 || chosen >= branches) chosen = branches - 1;
  }
  return rewriter.add_body(*at.called(chosen), {at.operand(chosen + 1)});
}

Instruction* simplify_while(Instruction& at) {
  const Literal* condition = splat_value(*at.while_condition()->root());
  if (condition == nullptr || condition->data<bool>()[0]) return nullptr;
  for (const auto& instruction : at.while_condition()->instructions()) {
    if (instruction->has_side_effect()) return nullptr;
  }
  return at.operand(0);
}

// combine(initial, x) is x, bit for bit.
bool is_neutral(const Computation& reducer, const Instruction& initial) {
  const DType dtype = initial.shape().dtype();
  const bool floating = is_floating(dtype);
  const double infinity = std::numeric_limits<double>::infinity();
  const auto combines_with = [&](Opcode opcode) {
    return ir::is_binary_computation(reducer, opcode);
  };
  if (combines_with(Opcode::add)) return is_splat_of(initial, floating ? -0.0 : 0.0);
  if (combines_with(Opcode::multiply)) return is_splat_of(initial, 1);
  if (combines_with(Opcode::maximum)) return floating && is_splat_of(initial, -infinity);
  if (combines_with(Opcode::minimum)) return floating && is_splat_of(initial, infinity);
  if (combines_with(Opcode::or_)) return is_splat_of(initial, 0);
  if (combines_with(Opcode::and_)) return is_all_ones(initial);
  return false;
}

// A reduction over single elements keeps them.
Instruction* simplify_reduce(Rewriter& rewriter, Instruction& at) {
  if (at.operand_count() != 2 || at.shape().element_count() == 0) return nullptr;
  Instruction* operand = at.operand(0);
  const bool same_types = operand->shape().dtype() == at.shape().dtype() &&
                          at.operand(1)->shape().dtype() == at.shape().dtype() &&
                          at.to_apply()->root()->shape().dtype() == at.shape().dtype() &&
                          at.to_apply()->parameters()[0]->shape().dtype() == at.shape().dtype();
  if (!same_types || operand->shape().element_count() != at.shape().element_count() ||
      !is_neutral(*at.to_apply(), *at.operand(1))) {
    return nullptr;
  }
  return rewriter.add(Opcode::reshape, at.shape(), {operand});
}

}  // namespace

Instruction* simplify_structure(Rewriter& rewriter, Instruction& at) {
  switch (at.opcode()) {
    case Opcode::get_tuple_element: {
      Instruction* tuple = at.operand(0);
      if (tuple->opcode() != Opcode::tuple) return nullptr;
      return tuple->operand(static_cast<int>(at.attributes().tuple_index));
    }
    case Opcode::tuple:
      return simplify_tuple(at);
    case Opcode::conditional:
      return simplify_conditional(rewriter, at);
    case Opcode::while_:
      return simplify_while(at);
    case Opcode::reduce:
      return simplify_reduce(rewriter, at);
    default:
      return nullptr;
  }
}

}  // namespace plimsoll::passes
