// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/index.h"
#include "runtime/passes/expand/expansions.h"

namespace plimsoll::passes {
namespace {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

// One collective of the parameters in order: others go on while it waits.
bool is_one_collective(const Computation& computation) {
  const Instruction& root = *computation.root();
  const bool has_form = ir::op_info(root.opcode()).op_class == ir::OpClass::collective &&
                        root.operands().size() == computation.parameters().size() &&
                        at(computation.instruction_count()) == root.operands().size() + 1;
  for (std::size_t i = 0; has_form && i < root.operands().size(); ++i) {
    if (root.operands()[i] != computation.parameters()[i]) return false;
  }
  return has_form;
}

}  // namespace

Expansion expand_async_done(Instruction& done) {
  Instruction* start = done.operand(0);
  while (start->opcode() == Opcode::async_update) start = start->operand(0);
  if (start->opcode() != Opcode::async_start || start->called_computations().size() != 1 ||
      is_one_collective(*start->called(0))) {
    return nullptr;
  }
  Instruction* const call =
      done.parent()->add(Opcode::call, done.shape(), start->operands(), done.name());
  call->set_called_computations({start->called(0)});
  return call;
}

}  // namespace plimsoll::passes
