// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "runtime/passes/cleanup/dead_code.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

// The results somebody takes; empty when all of them must stay.
std::vector<std::int64_t> taken_results(const Instruction& fusion) {
  if (fusion.to_apply()->root()->opcode() != Opcode::tuple || fusion.is_root()) return {};
  std::vector<std::int64_t> taken;
  for (const Instruction* user : fusion.users()) {
    if (user->opcode() != Opcode::get_tuple_element) return {};
    taken.push_back(user->attributes().tuple_index);
  }
  std::sort(taken.begin(), taken.end());
  taken.erase(std::unique(taken.begin(), taken.end()), taken.end());
  return taken;
}

// A computation with the results `kept` (all when empty) of `fused`, without what they do not need;
// `operands` gets the numbers of the parameters that are left.
Computation* narrowed(ir::Module& module, const Computation& fused,
                      const std::vector<std::int64_t>& kept, std::vector<std::int64_t>& operands) {
  Computation* copy = module.add_clone(fused);
  if (!kept.empty()) {
    std::vector<Instruction*> results;
    for (std::int64_t i : kept) results.push_back(copy->root()->operand(static_cast<int>(i)));
    if (results.size() == 1) {
      copy->set_root(results[0]);
    } else {
      copy->add_tuple(results);
    }
    copy->remove_dead();
  }
  Computation* result = module.add_computation(fused.name());
  std::unordered_map<const Instruction*, Instruction*> copies;
  for (Instruction* parameter : copy->parameters()) {
    if (parameter->users().empty() && parameter != copy->root()) continue;
    const auto number = static_cast<std::int64_t>(operands.size());
    operands.push_back(parameter->attributes().parameter_number);
    copies.emplace(parameter, result->add_parameter(number, parameter->shape(), parameter->name()));
  }
  for (const auto& instruction : copy->instructions()) {
    if (instruction->opcode() == Opcode::parameter) continue;
    std::vector<Instruction*> arguments;
    for (const Instruction* operand : instruction->operands()) {
      arguments.push_back(copies.at(operand));
    }
    copies.emplace(instruction.get(), result->add_clone(*instruction, std::move(arguments)));
  }
  result->set_root(copies.at(copy->root()));
  return result;
}

bool narrow(Instruction& fusion) {
  const Computation& fused = *fusion.to_apply();
  std::vector<std::int64_t> kept = taken_results(fusion);
  if (kept.size() == fused.root()->operands().size()) kept.clear();
  const bool reads_all =
      std::all_of(fused.parameters().begin(), fused.parameters().end(),
                  [&](const Instruction* p) { return !p->users().empty() || p == fused.root(); });
  if (kept.empty() && reads_all) return false;

  Computation& parent = *fusion.parent();
  std::vector<std::int64_t> numbers;
  Computation* smaller = narrowed(*parent.module(), fused, kept, numbers);
  std::vector<Instruction*> operands;
  for (std::int64_t number : numbers) operands.push_back(fusion.operand(static_cast<int>(number)));
  Instruction* replacement =
      parent.insert_before(&fusion, Opcode::fusion, smaller->root()->shape(), std::move(operands),
                           fusion.name(), fusion.attributes());
  replacement->set_called_computations({smaller});
  for (Instruction* predecessor : fusion.control_predecessors()) {
    replacement->add_control_predecessor(predecessor);
  }
  for (Instruction* successor : fusion.control_successors()) {
    successor->add_control_predecessor(replacement);
  }
  if (kept.empty()) {
    fusion.replace_all_uses_with(replacement);
    return true;
  }
  for (Instruction* user : std::vector(fusion.users())) {
    const auto at = std::lower_bound(kept.begin(), kept.end(), user->attributes().tuple_index);
    if (kept.size() == 1) {
      user->replace_all_uses_with(replacement);
    } else {
      user->attributes().tuple_index = at - kept.begin();
      user->replace_operand(0, replacement);
    }
  }
  return true;
}

}  // namespace

bool narrow_fusions(ir::Module& module) {
  std::vector<Instruction*> fusions;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      // The kernel of a custom fusion knows its body as it is.
      if (instruction->opcode() == Opcode::fusion && !instruction->has_side_effect() &&
          instruction->attributes().fusion_kind != ir::FusionKind::custom &&
          (!instruction->users().empty() || instruction->is_root())) {
        fusions.push_back(instruction.get());
      }
    }
  }
  bool changed = false;
  for (Instruction* fusion : fusions) {
    if (narrow(*fusion)) changed = true;
  }
  return changed;
}

}  // namespace plimsoll::passes
