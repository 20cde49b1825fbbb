// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/shown.h"

namespace plimsoll::ir {

bool is_view(const Instruction& instruction) {
  switch (instruction.opcode()) {
    case Opcode::parameter:
    case Opcode::tuple:
    case Opcode::get_tuple_element:
    case Opcode::domain:
    case Opcode::opt_barrier:
    case Opcode::after_all:
    case Opcode::add_dependency:
    case Opcode::reshape:
      return true;
    case Opcode::bitcast:
      return is_row_major(instruction.shape()) && is_row_major(instruction.operand(0)->shape());
    default:
      return false;
  }
}

const Instruction* shown_by(const Instruction* view) {
  while ((view->opcode() == Opcode::reshape || view->opcode() == Opcode::bitcast) &&
         is_view(*view) && view->operand(0)->shape().dtype() == view->shape().dtype()) {
    view = view->operand(0);
  }
  return view;
}

}  // namespace plimsoll::ir
