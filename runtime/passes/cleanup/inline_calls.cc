// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <unordered_set>

#include "runtime/ir/fusions/attention.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

Result<bool> inline_calls(ir::Module& module) {
  bool changed = module.remove_unreachable() > 0;
  // Calls of calls may grow exponentially; what is over stays a call.
  std::int64_t budget = 16 * module.instruction_count() + 10'000;
  for (Computation* computation : programs_of(module)) {
    Rewriter rewriter(*computation);
    const auto rule = [&](Rewriter& rewrite, Instruction& at) -> Instruction* {
      // Fusions that came with the text were another compiler's choice; ours are made afterwards.
      // An attention that is what it claims has a kernel.
      if (at.opcode() != Opcode::call && at.opcode() != Opcode::fusion) return nullptr;
      if (ir::read_attention(at).has_value()) return nullptr;
      const Computation& callee = *at.to_apply();
      if (callee.instruction_count() > budget) return nullptr;
      budget -= callee.instruction_count();
      return rewrite.add_body(callee, at.operands());
    };
    PLIMSOLL_ASSIGN_OR_RETURN(const bool swept, rewriter.sweep(rule));
    changed = changed || swept;
  }
  if (changed) module.remove_unreachable();
  return changed;
}

Result<bool> inline_fusions(ir::Module& module,
                            const std::unordered_set<const Instruction*>& fusions) {
  bool changed = false;
  for (Computation* computation : programs_of(module)) {
    // What was removed from another computation may have left its address to what is added here.
    std::unordered_set<const Instruction*> own;
    for (const auto& instruction : computation->instructions()) {
      if (fusions.contains(instruction.get())) own.insert(instruction.get());
    }
    Rewriter rewriter(*computation);
    const auto rule = [&](Rewriter& rewrite, Instruction& at) -> Instruction* {
      return own.contains(&at) ? rewrite.add_body(*at.to_apply(), at.operands()) : nullptr;
    };
    PLIMSOLL_ASSIGN_OR_RETURN(const bool swept, rewriter.sweep(rule));
    changed = changed || swept;
  }
  if (changed) module.remove_unreachable();
  return changed;
}

}  // namespace plimsoll::passes
