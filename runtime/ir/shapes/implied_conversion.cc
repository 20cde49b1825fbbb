// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/shapes/implied_conversion.h"

namespace plimsoll::ir {
namespace {

bool is_product(Opcode opcode) { return opcode == Opcode::dot || opcode == Opcode::convolution; }

bool is_converted(Opcode opcode, DType from, DType to) {
  if (is_product(opcode)) return is_floating(to) && (is_integer(from) || from == DType::pred);
  return opcode == Opcode::broadcast && from != to;
}

}  // namespace

void add_implied_conversions(Computation& computation, Opcode opcode, const Shape& to,
                             std::vector<Instruction*>& operands) {
  if (!to.is_array()) return;
  for (Instruction*& operand : operands) {
    const Shape& from = operand->shape();
    if (!from.is_array() || !is_converted(opcode, from.dtype(), to.dtype())) continue;
    operand = computation.add(Opcode::convert, Shape(to.dtype(), from.dims()), {operand});
  }
}

}  // namespace plimsoll::ir
