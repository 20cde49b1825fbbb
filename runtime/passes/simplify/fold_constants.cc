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

// Correctly rounded or integer operations; what a backend may round otherwise is left to it.
bool is_exact(Opcode opcode) {
  switch (opcode) {
    case Opcode::reshape:
    case Opcode::transpose:
    case Opcode::convert:
    case Opcode::bitcast_convert:
    case Opcode::slice:
    case Opcode::concatenate:
    case Opcode::pad:
    case Opcode::reverse:
    case Opcode::select:
    case Opcode::compare:
    case Opcode::clamp:
    case Opcode::abs:
    case Opcode::negate:
    case Opcode::sign:
    case Opcode::ceil:
    case Opcode::floor:
    case Opcode::round_nearest_afz:
    case Opcode::round_nearest_even:
    case Opcode::sqrt:
    case Opcode::is_finite:
    case Opcode::not_:
    case Opcode::popcnt:
    case Opcode::count_leading_zeros:
    case Opcode::reduce_precision:
    case Opcode::add:
    case Opcode::subtract:
    case Opcode::multiply:
    case Opcode::divide:
    case Opcode::remainder:
    case Opcode::maximum:
    case Opcode::minimum:
    case Opcode::and_:
    case Opcode::or_:
    case Opcode::xor_:
    case Opcode::shift_left:
    case Opcode::shift_right_logical:
    case Opcode::shift_right_arithmetic:
      return true;
    default:
      return false;
  }
}

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
  if (!is_exact(at.opcode()) || at.operands().empty() ||
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
