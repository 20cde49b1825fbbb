// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/dataflow/run_again.h"

#include <algorithm>

namespace plimsoll::ir {
namespace {

bool communicates(const Instruction& instruction) {
  const OpClass op_class = op_info(instruction.opcode()).op_class;
  return op_class == OpClass::collective || op_class == OpClass::async;
}

bool calls_communication(const Instruction& instruction) {
  if (op_info(instruction.opcode()).op_class != OpClass::control) return false;
  for (const Computation* callee : callees_of(instruction)) {
    const auto& inner = callee->instructions();
    if (std::any_of(inner.begin(), inner.end(),
                    [](const auto& each) { return communicates(*each); })) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool may_run_again(const Instruction& instruction) {
  return !instruction.has_side_effect() && instruction.control_successors().empty() &&
         !communicates(instruction) && !calls_communication(instruction);
}

}  // namespace plimsoll::ir
