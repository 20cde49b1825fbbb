// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/passes/simplify/simplify_rules.h"

namespace plimsoll::passes {

using ir::Instruction;
using ir::Literal;
using ir::Opcode;

namespace {

constexpr std::int64_t kMaxElements = 64;

// The sign and payload of a NaN that an operation makes are the processor's choice.
bool holds_nan(const Literal& literal) {
  if (!is_floating(literal.shape().dtype())) return false;
  for (std::int64_t i = 0; i < literal.shape().element_count(); ++i) {
    if (std::isnan(literal.at(i))) return true;
  }
  return false;
}

}  // namespace

Instruction* fold_constants(Rewriter& rewriter, Instruction& at) {
  if (!at.shape().is_array() || at.shape().element_count() == 0) return nullptr;
  if (at.opcode() == Opcode::constant) {
    // One element and a broadcast take fewer bytes and meet more rules than equal elements.
    const Literal* literal = splat_value(at);
    if (literal == nullptr || at.shape().element_count() == 1) return nullptr;
    return rewriter.add_splat(at.shape(), *literal);
  }
  // What a backend may round otherwise is left to it.
  if (!op_info(at.opcode()).is_exact || at.operands().empty() ||
      at.shape().element_count() > kMaxElements) {
    return nullptr;
  }
  std::vector<Literal> operands;
  for (const Instruction* operand : at.operands()) {
    const auto& literal = operand->attributes().literal;
    if (operand->opcode() != Opcode::constant || literal == nullptr || literal->is_elided() ||
        operand->shape().element_count() > kMaxElements || holds_nan(*literal)) {
      return nullptr;
    }
    operands.push_back(*literal);
  }
  Result<Literal> value = ir::interpret(at, operands);
  if (!value.ok() || !(value->shape() == at.shape()) || holds_nan(*value)) return nullptr;
  return rewriter.add_constant(std::move(*value));
}

}  // namespace plimsoll::passes
