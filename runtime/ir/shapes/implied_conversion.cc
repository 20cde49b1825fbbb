// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/shapes/implied_conversion.h"

#include <algorithm>

namespace plimsoll::ir {
namespace {

bool are_converted(Opcode opcode, DType to, const std::vector<Instruction*>& operands) {
  if (opcode == Opcode::broadcast) return operands.size() == 1;
  return (opcode == Opcode::dot || opcode == Opcode::convolution) && is_floating(to) &&
         std::all_of(operands.begin(), operands.end(), [](const Instruction* operand) {
           return operand->shape().is_array() && is_integer(operand->shape().dtype());
         });
}

}  // namespace

void add_implied_conversions(Computation& computation, Opcode opcode, const Shape& to,
                             std::vector<Instruction*>& operands) {
  if (!to.is_array() || !are_converted(opcode, to.dtype(), operands)) return;
  for (Instruction*& operand : operands) {
    const Shape& from = operand->shape();
    if (!from.is_array() || from.dtype() == to.dtype()) continue;
    operand = computation.add(Opcode::convert, Shape(to.dtype(), from.dims()), {operand});
  }
}

}  // namespace plimsoll::ir
