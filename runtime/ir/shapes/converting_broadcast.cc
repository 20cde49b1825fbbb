// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/shapes/converting_broadcast.h"

namespace plimsoll::ir {

void convert_before_broadcast(Computation& computation, Opcode opcode, const Shape& to,
                              std::vector<Instruction*>& operands) {
  if (opcode != Opcode::broadcast || operands.size() != 1) return;
  const Shape& from = operands[0]->shape();
  if (!from.is_array() || !to.is_array() || from.dtype() == to.dtype()) return;
  operands[0] = computation.add(Opcode::convert, Shape(to.dtype(), from.dims()), {operands[0]});
}

}  // namespace plimsoll::ir
