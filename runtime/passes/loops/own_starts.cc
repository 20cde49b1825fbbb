// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "runtime/passes/passes.h"

namespace plimsoll::passes {
namespace {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

// Filling less takes no longer than a launch.
constexpr std::int64_t kLeastBytes = 65536;

// One number in all elements, made out of nothing.
bool holds_one_number(const Instruction& value) {
  if (!value.shape().is_array() || value.shape().byte_size() < kLeastBytes) return false;
  if (value.opcode() == Opcode::fusion) return value.operands().empty();
  return value.opcode() == Opcode::broadcast && value.operand(0)->opcode() == Opcode::constant;
}

bool changes(const Instruction& loop, int leaf) {
  const Instruction& root = *loop.while_body()->root();
  if (root.opcode() != Opcode::tuple) return true;
  const Instruction& next = *root.operand(leaf);
  return next.opcode() != Opcode::get_tuple_element ||
         next.operand(0) != loop.while_body()->parameters()[0] ||
         next.attributes().tuple_index != leaf;
}

std::size_t uses_of(const Instruction& value) {
  std::size_t uses = 0;
  for (const Instruction* user : value.users()) {
    uses += static_cast<std::size_t>(
        std::count(user->operands().begin(), user->operands().end(), &value));
  }
  return uses;
}

bool give_own_starts(Computation& computation) {
  std::vector<Instruction*> loops, order;
  for (const auto& instruction : computation.instructions()) {
    if (instruction->opcode() == Opcode::while_) loops.push_back(instruction.get());
    order.push_back(instruction.get());
  }
  Instruction* const root = computation.root();
  std::unordered_map<const Instruction*, std::vector<Instruction*>> before;
  // From the last one on: what is there already stays the first one's.
  for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) {
    Instruction* const state = (*loop)->operand(0);
    if (state->opcode() != Opcode::tuple || state->users().size() != 1) continue;
    for (int leaf = 0; leaf < state->operand_count(); ++leaf) {
      Instruction* const start = state->operand(leaf);
      if (!holds_one_number(*start) || uses_of(*start) < 2 || !changes(**loop, leaf)) continue;
      Instruction* const own = computation.add_clone(*start, start->operands(), start->name());
      if (start->opcode() == Opcode::fusion) {
        own->set_called_computations(
            {computation.module()->add_clone(*start->called_computations()[0])});
      }
      state->replace_operand(leaf, own);
      before[state].push_back(own);
    }
  }
  if (before.empty()) return false;
  std::vector<Instruction*> placed;
  for (Instruction* instruction : order) {
    const auto found = before.find(instruction);
    if (found != before.end()) {
      placed.insert(placed.end(), found->second.begin(), found->second.end());
    }
    placed.push_back(instruction);
  }
  computation.set_root(root);
  computation.set_order(placed);
  return true;
}

}  // namespace

Result<bool> own_starts(ir::Module& module) {
  bool changed = false;
  std::vector<Computation*> computations;
  for (const auto& computation : module.computations()) computations.push_back(computation.get());
  for (Computation* computation : computations) changed |= give_own_starts(*computation);
  if (changed) (void)module.remove_unreachable();
  return changed;
}

}  // namespace plimsoll::passes
