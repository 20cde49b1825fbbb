// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/ir/dataflow/run_again.h"
#include "runtime/ir/participants.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"

namespace plimsoll::passes {

using ir::Instruction;
using ir::Opcode;

namespace {

// A done half does nothing: its start has met the others.
bool meets(const Instruction& instruction) {
  switch (instruction.opcode()) {
    case Opcode::all_reduce_done:
    case Opcode::all_gather_done:
    case Opcode::collective_permute_done:
    case Opcode::copy_start:
    case Opcode::copy_done:
    case Opcode::async_update:
    case Opcode::async_done:
      return false;
    default:
      return ir::communicates(instruction);
  }
}

bool has_transfers(const ir::Computation& computation) {
  return std::any_of(computation.instructions().begin(), computation.instructions().end(),
                     [](const auto& instruction) {
                       return instruction->opcode() == Opcode::send ||
                              instruction->opcode() == Opcode::recv;
                     });
}

// Copies, as of loops that recompute what others do not, have other names.
void name_meeting(Instruction& instruction) {
  if (!ir::is_meeting(instruction)) return;
  auto& extra = instruction.attributes().extra;
  if (instruction.attributes().find_extra(ir::kMeeting).empty()) {
    extra.emplace_back(ir::kMeeting, instruction.name());
  }
}

Result<bool> order(ir::Module& module, bool only_with_transfers) {
  if (module.replica_count * module.num_partitions <= 1) return false;
  bool changed = false;
  for (ir::Computation* const computation : programs_of(module)) {
    if (only_with_transfers && !has_transfers(*computation)) continue;
    Instruction* last = nullptr;
    for (const auto& instruction : computation->instructions()) {
      if (!meets(*instruction)) continue;
      name_meeting(*instruction);
      if (last != nullptr) {
        instruction->add_control_predecessor(last);
        changed = true;
      }
      last = instruction.get();
    }
  }
  return changed;
}

}  // namespace

Result<bool> order_collectives(ir::Module& module) { return order(module, false); }

Result<bool> order_transfers(ir::Module& module) { return order(module, true); }

}  // namespace plimsoll::passes
