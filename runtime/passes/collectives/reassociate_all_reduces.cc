// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/collectives/participant_groups.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"

namespace plimsoll::passes {

using ir::Instruction;
using ir::Opcode;

namespace {

bool sum_together(const Instruction& a, const Instruction& b) {
  const auto groups_a = ir::collective_groups(a), groups_b = ir::collective_groups(b);
  return groups_a.ok() && groups_b.ok() && *groups_a == *groups_b &&
         (ir::channel_of(a) != 0) == (ir::channel_of(b) != 0);
}

Instruction* sum_of_sums(Rewriter& rewriter, Instruction& at) {
  if (at.opcode() != Opcode::add && at.opcode() != Opcode::subtract) return nullptr;
  Instruction& a = *at.operand(0);
  Instruction& b = *at.operand(1);
  if (&a == &b || !is_sum_for(a, at) || !is_sum_for(b, at) || !(a.shape() == at.shape()) ||
      !(b.shape() == at.shape()) || !sum_together(a, b)) {
    return nullptr;
  }
  Instruction* const inner =
      rewriter.add(at.opcode(), at.shape(), {a.operand(0), b.operand(0)}, at.attributes());
  return rewriter.add_clone(a, {inner});
}

}  // namespace

Result<bool> reassociate_all_reduces(ir::Module& module) {
  if (!are_countable(module)) return false;
  return sweep_programs(module, sum_of_sums);
}

}  // namespace plimsoll::passes
