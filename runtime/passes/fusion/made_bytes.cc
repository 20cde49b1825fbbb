// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/fusion/made_bytes.h"

namespace plimsoll::passes {

using ir::Instruction;
using ir::Opcode;

namespace {

double made_bytes(const Instruction& instruction) {
  switch (instruction.opcode()) {
    case Opcode::parameter:
    case Opcode::constant:
    case Opcode::tuple:
    case Opcode::get_tuple_element:
      return 0;
    default:
      return static_cast<double>(instruction.shape().byte_size());
  }
}

}  // namespace

MadeBytes::MadeBytes(const ir::Computation& computation)
    : before_(computation.instructions().size()) {
  double made = 0;
  for (const auto& instruction : computation.instructions()) {
    before_.emplace(instruction.get(), made);
    made += made_bytes(*instruction);
  }
}

double MadeBytes::until(const Instruction& instruction) const {
  if (instruction.opcode() == Opcode::parameter || instruction.opcode() == Opcode::constant) {
    return 0;
  }
  return before(instruction) + made_bytes(instruction);
}

}  // namespace plimsoll::passes
