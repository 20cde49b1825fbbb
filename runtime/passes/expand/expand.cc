// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "runtime/passes/expand/expansions.h"
#include "runtime/passes/passes.h"

namespace plimsoll::passes {
namespace {

using ir::Opcode;

Expansion expand_custom_call(ir::Instruction& instruction) {
  const std::string& target = instruction.attributes().custom_call_target;
  if (target == "__op$block_scaled_dot") return expand_block_scaled_call(instruction);
  return expand_identity(instruction);
}

struct Row {
  Opcode opcode;
  Expansion (*expand)(ir::Instruction&);
};
constexpr Row kRows[] = {
    {Opcode::bitcast, expand_bitcast},
    {Opcode::copy, expand_copy},
    {Opcode::async_done, expand_async_done},
    {Opcode::custom_call, expand_custom_call},
    {Opcode::cholesky, expand_cholesky},
    {Opcode::triangular_solve, expand_triangular_solve},
    {Opcode::fft, expand_fft},
    {Opcode::batch_norm_training, expand_batch_norm},
    {Opcode::batch_norm_inference, expand_batch_norm},
    {Opcode::batch_norm_grad, expand_batch_norm},
    {Opcode::mulhi, expand_mulhi},
    {Opcode::scan, expand_scan},
    {Opcode::ragged_dot, expand_ragged_dot},
    {Opcode::scaled_dot, expand_scaled_dot},
    {Opcode::stochastic_convert, expand_stochastic_convert},
};

bool is_top_k(const ir::Instruction& instruction) {
  return instruction.opcode() == Opcode::topk || is_topk_call(instruction);
}

bool is_expanded(const ir::Instruction& instruction) {
  return is_top_k(instruction) ||
         std::any_of(std::begin(kRows), std::end(kRows),
                     [&](const Row& row) { return row.opcode == instruction.opcode(); });
}

Expansion expand_one(ir::Instruction& instruction, const ExpandOptions& options) {
  if (is_top_k(instruction)) return expand_topk(instruction, options.keeps_top_k);
  const Row* row = std::begin(kRows);
  while (row->opcode != instruction.opcode()) ++row;
  return row->expand(instruction);
}

}  // namespace

Status expand(ir::Module& module, const ExpandOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(expand_applied(module));
  std::vector<ir::Instruction*> found;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      if (is_expanded(*instruction)) found.push_back(instruction.get());
    }
  }
  std::vector<ir::Computation*> changed;
  for (ir::Instruction* const instruction : found) {
    ir::Computation& computation = *instruction->parent();
    ir::Instruction* const root = computation.root();
    PLIMSOLL_ASSIGN_OR_RETURN(ir::Instruction* const made, expand_one(*instruction, options));
    computation.set_root(root);  // which else is what was added last
    if (made == nullptr) continue;
    instruction->replace_all_uses_with(made);
    ir::Instruction* half =
        instruction->opcode() == Opcode::async_done ? instruction->operand(0) : nullptr;
    computation.remove(instruction);
    while (half != nullptr && half->users().empty() && !half->is_root()) {
      ir::Instruction* const before =
          half->opcode() == Opcode::async_update ? half->operand(0) : nullptr;
      computation.remove(half);
      half = before;
    }
    if (changed.empty() || changed.back() != &computation) changed.push_back(&computation);
  }
  if (options.keeps_top_k) {
    std::vector<ir::Instruction*> sorts;
    for (const auto& computation : module.computations()) {
      for (const auto& instruction : computation->instructions()) {
        if (instruction->opcode() == Opcode::sort) sorts.push_back(instruction.get());
      }
    }
    for (ir::Instruction* const sort : sorts) {
      ir::Computation& computation = *sort->parent();
      PLIMSOLL_ASSIGN_OR_RETURN(const bool is_made, recognize_topk(*sort));
      if (is_made) changed.push_back(&computation);
    }
  }
  for (ir::Computation* const computation : changed) {
    PLIMSOLL_RETURN_IF_ERROR(computation->sort_topologically());
  }
  if (!changed.empty()) (void)module.remove_unreachable();
  return ok_status();
}

}  // namespace plimsoll::passes
