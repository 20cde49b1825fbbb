// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "runtime/ir/module.h"

namespace plimsoll::passes {

// The parts of a complex value, alike in shape.
struct Parts {
  ir::Instruction* real = nullptr;
  ir::Instruction* imaginary = nullptr;
};

// What the elementwise `opcode` gives for complex operands; nothing where it has no complex form.
// New instructions go to the end of the operands' computation.
std::optional<Parts> complex_unary(ir::Opcode opcode, Parts z);
std::optional<Parts> complex_binary(ir::Opcode opcode, Parts a, Parts b);
// |z|, without overflow where the result is none.
ir::Instruction* complex_abs(Parts z);

}  // namespace plimsoll::passes
