// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>

#include "runtime/passes/fusion/sums.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

using Places = std::unordered_map<const Instruction*, std::size_t>;

// Already ((a + b) + c) + ... in the order in which the addends are made.
bool accumulates(const Sum& sum, const std::vector<Instruction*>& in_order) {
  const Instruction* at = sum.root;
  for (std::size_t k = in_order.size(); k-- > 1;) {
    const bool last = k == 1;
    if (at->operand(1) != in_order[k] || (last && at->operand(0) != in_order[0])) return false;
    at = at->operand(0);
  }
  return true;
}

bool reorder(Computation& computation) {
  Places places;
  const auto& instructions = computation.instructions();
  for (std::size_t i = 0; i < instructions.size(); ++i) places.emplace(instructions[i].get(), i);
  // What is to stand behind an instruction.
  std::unordered_map<const Instruction*, std::vector<Instruction*>> behind;
  std::vector<Instruction*> before;
  for (const auto& instruction : instructions) before.push_back(instruction.get());
  bool changed = false;
  for (const Sum& sum : find_sums(computation)) {
    const auto waiting = std::count_if(sum.addends.begin(), sum.addends.end(),
                                       [](const Instruction* a) { return waits_for_sum(*a); });
    if (waiting < 3) continue;
    std::vector<Instruction*> in_order = sum.addends;
    std::stable_sort(
        in_order.begin(), in_order.end(),
        [&](const Instruction* a, const Instruction* b) { return places.at(a) < places.at(b); });
    if (accumulates(sum, in_order)) continue;
    Instruction* root = computation.root();
    Instruction* total = in_order[0];
    for (std::size_t k = 1; k < in_order.size(); ++k) {
      total = computation.add(Opcode::add, sum.root->shape(), {total, in_order[k]});
      behind[in_order[k]].push_back(total);
    }
    computation.set_root(root);
    total->attributes().extra = sum.root->attributes().extra;
    sum.root->replace_all_uses_with(total);
    changed = true;
  }
  if (!changed) return false;
  std::vector<Instruction*> order;
  for (Instruction* instruction : before) {
    order.push_back(instruction);
    const auto it = behind.find(instruction);
    if (it != behind.end()) order.insert(order.end(), it->second.begin(), it->second.end());
  }
  computation.set_order(order);
  computation.remove_dead();
  return true;
}

}  // namespace

Result<bool> schedule_sums(ir::Module& module) {
  bool changed = false;
  for (Computation* computation : programs_of(module)) {
    if (reorder(*computation)) changed = true;
  }
  return changed;
}

}  // namespace plimsoll::passes
