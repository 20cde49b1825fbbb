// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/baselines/greedy.h"

#include <algorithm>

#include "runtime/base/index.h"
#include "runtime/planner/baselines/greedy_pass.h"

namespace plimsoll::planner {
namespace {

using ir::Instruction;
using ir::Opcode;

// A fusion with several results, some of which nobody reads, gives way to one that computes only
// the others.
bool narrow(ir::Module& module, ir::Computation& computation, Instruction* fusion) {
  // The kernel of a custom fusion knows its body as it is.
  if (fusion->attributes().fusion_kind == ir::FusionKind::custom) return false;
  const Instruction* tuple = fusion->to_apply()->root();
  if (tuple->opcode() != Opcode::tuple || fusion->users().empty() || fusion->is_root())
    return false;
  std::vector<char> used(at(tuple->operand_count()), 0);
  for (const Instruction* user : fusion->users()) {
    if (user->opcode() != Opcode::get_tuple_element) return false;
    used[at(user->attributes().tuple_index)] = 1;
  }
  const auto kept = std::count(used.begin(), used.end(), 1);
  if (kept == static_cast<std::ptrdiff_t>(used.size())) return false;

  ir::Computation* body = module.add_clone(*fusion->to_apply(), fusion->to_apply()->name());
  std::vector<Instruction*> elements;
  std::vector<std::int64_t> place(used.size(), -1);
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) continue;
    place[i] = static_cast<std::int64_t>(elements.size());
    elements.push_back(body->root()->operand(static_cast<int>(i)));
  }
  if (kept == 1) {
    body->set_root(elements[0]);
  } else {
    body->set_root(body->add_tuple(elements));
  }
  body->remove_dead();

  Instruction* const root = computation.root();
  Instruction* narrowed =
      computation.insert_before(fusion, Opcode::fusion, body->root()->shape(), fusion->operands(),
                                fusion->name(), fusion->attributes());
  narrowed->set_called_computations({body});
  for (Instruction* before : fusion->control_predecessors()) {
    narrowed->add_control_predecessor(before);
  }
  for (Instruction* after : std::vector(fusion->control_successors())) {
    after->add_control_predecessor(narrowed);
  }
  for (Instruction* user : std::vector(fusion->users())) {
    const auto element = at(user->attributes().tuple_index);
    if (kept == 1) {
      user->replace_all_uses_with(narrowed);
    } else {
      user->replace_operand(0, narrowed);
      user->attributes().tuple_index = place[element];
    }
  }
  if (computation.root() != root && kept > 1) computation.set_root(root);
  return true;
}

bool narrow_fusions(ir::Module& module, ir::Computation& computation) {
  std::vector<Instruction*> fusions;
  for (const auto& instruction : computation.instructions()) {
    if (instruction->opcode() == Opcode::fusion) fusions.push_back(instruction.get());
  }
  bool changed = false;
  for (Instruction* fusion : fusions) changed = narrow(module, computation, fusion) || changed;
  return changed;
}

std::vector<ir::Computation*> sequential_computations(ir::Module& module) {
  std::vector<ir::Computation*> found{module.entry()};
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (const auto& instruction : found[i]->instructions()) {
      if (ir::op_info(instruction->opcode()).op_class != ir::OpClass::control) continue;
      for (ir::Computation* callee : instruction->called_computations()) {
        if (std::find(found.begin(), found.end(), callee) == found.end()) found.push_back(callee);
      }
    }
  }
  return found;
}

}  // namespace

Result<GreedyReport> rematerialize_greedy(ir::Module& module, const GreedyOptions& options) {
  if (module.entry() == nullptr) {
    return invalid_argument("rematerialize_greedy: module without an entry");
  }
  const std::int64_t outputs =
      bytes_with_tables(module.entry()->root()->shape(), options.tuple_entry_bytes);
  GreedyPass pass(module, options);
  GreedyReport report;
  report.peak_before = pass.peak(*module.entry()) + outputs;
  pass.rematerialize(*module.entry(), options.limit_bytes - outputs, true);
  report.changed = pass.changed();
  report.rematerialized = pass.rematerialized();
  report.net_added = pass.net_added();
  if (report.changed) {
    for (bool again = true; again;) {
      again = false;
      for (ir::Computation* computation : sequential_computations(module)) {
        again = computation->remove_dead() > 0 || again;
        again = narrow_fusions(module, *computation) || again;
      }
    }
    module.remove_unreachable();
  }
  report.peak_after = GreedyPass(module, options).peak(*module.entry()) + outputs;
  return report;
}

}  // namespace plimsoll::planner
