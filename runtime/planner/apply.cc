// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/apply.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/planner/remat_names.h"
#include "runtime/planner/views.h"

namespace plimsoll::planner {
namespace {

using ir::Instruction;
using ir::Opcode;

// Rewrites one computation. Views and constants are placed where a step first needs them.
class Applier {
 public:
  Applier(ir::Computation& computation, RematNames& names)
      : computation_(computation), names_(names), root_(computation.root()) {
    for (const auto& instruction : computation_.instructions()) {
      originals_[instruction.get()] = instruction->operands();
      for (Instruction* operand : instruction->operands()) {
        users_[operand].push_back(instruction.get());
      }
    }
  }

  bool run(const Plan& plan) {
    std::vector<Instruction*> before;
    for (const auto& instruction : computation_.instructions()) before.push_back(instruction.get());
    for (Instruction* parameter : computation_.parameters()) {
      if (parameter != nullptr) place(parameter);
    }
    for (const Step& step : plan.steps) {
      if (step.kind == StepKind::copy || step.kind == StepKind::upload ||
          step.kind == StepKind::free) {
        continue;
      }
      run_step(const_cast<Instruction*>(step.instruction), step.kind == StepKind::recompute);
    }
    Instruction* root = current(root_);
    for (Instruction* instruction : before) place_all(instruction);
    computation_.set_root(root);
    computation_.set_order(order_);
    const bool changed = order_ != before;
    computation_.remove_dead();
    return changed;
  }

 private:
  // The newest copy of an instruction.
  Instruction* latest(Instruction* instruction) {
    const auto it = latest_.find(instruction);
    return it == latest_.end() ? instruction : it->second;
  }

  void place(Instruction* instruction) {
    if (placed_.insert(instruction).second) order_.push_back(instruction);
  }

  void run_step(Instruction* instruction, bool again) {
    // What an unread tuple element needed stands before its own step, with the operands of then.
    if (!again && placed_.contains(instruction)) return;
    std::vector<Instruction*> operands;
    for (Instruction* operand : originals_.at(instruction)) operands.push_back(current(operand));
    for (Instruction* control : instruction->control_predecessors()) place_all(control);
    if (!again) {
      for (int k = 0; k < instruction->operand_count(); ++k) {
        instruction->replace_operand(k, operands[static_cast<std::size_t>(k)]);
      }
      place(instruction);
      return;
    }
    Instruction* clone =
        computation_.add_clone(*instruction, std::move(operands), names_.next(*instruction));
    for (Instruction* control : instruction->control_predecessors()) {
      clone->add_control_predecessor(control);
    }
    place(clone);
    latest_[instruction] = clone;
    forget_views(instruction);
  }

  // A view of something that was computed again must be made again when next read.
  void forget_views(Instruction* instruction) {
    for (Instruction* user : original_users(instruction)) {
      if (!is_view(*user) || !stale_.insert(user).second) continue;
      forget_views(user);
    }
  }

  const std::vector<Instruction*>& original_users(Instruction* instruction) {
    auto it = users_.find(instruction);
    if (it != users_.end()) return it->second;
    static const std::vector<Instruction*> kNone;
    return kNone;
  }

  // Makes sure that `instruction` and what it views stand in the order; steps place the others.
  void place_all(Instruction* instruction) {
    std::vector<Instruction*> stack{instruction};
    while (!stack.empty()) {
      Instruction* top = stack.back();
      bool ready = true;
      if (!placed_.contains(top)) {
        for (Instruction* operand : top->operands()) {
          if (!placed_.contains(operand)) {
            stack.push_back(operand);
            ready = false;
          }
        }
        for (Instruction* control : top->control_predecessors()) {
          if (!placed_.contains(control)) {
            stack.push_back(control);
            ready = false;
          }
        }
      }
      if (!ready) continue;
      stack.pop_back();
      place(top);
    }
  }

  // What a read of `instruction` gets now: itself, its newest copy, or a fresh view of newer
  // copies.
  Instruction* current(Instruction* instruction) {
    if (!is_view(*instruction) || instruction->opcode() == Opcode::parameter) {
      // Unplaced ones are constants, and what only an unread tuple element needs.
      place_all(instruction);
      return latest(instruction);
    }
    const bool placed = placed_.contains(instruction);
    if (placed && !stale_.contains(instruction)) return latest(instruction);
    if (Instruction* element = element_of_unfinished(instruction)) return current(element);
    if (Instruction* element = element_before_loop(instruction)) return element;
    std::vector<Instruction*> operands;
    for (Instruction* operand : originals_.at(instruction)) operands.push_back(current(operand));
    if (!placed) {
      for (int k = 0; k < instruction->operand_count(); ++k) {
        instruction->replace_operand(k, operands[static_cast<std::size_t>(k)]);
      }
      for (Instruction* control : instruction->control_predecessors()) place_all(control);
      place(instruction);
      stale_.erase(instruction);
      return instruction;
    }
    Instruction* clone =
        computation_.add_clone(*instruction, std::move(operands), names_.next(*instruction));
    place(clone);
    latest_[instruction] = clone;
    stale_.erase(instruction);
    return clone;
  }

  // The element that `instruction` takes out of a tuple of which other parts have not run yet; null
  // where it takes none or all have.
  Instruction* element_of_unfinished(Instruction* instruction) {
    if (instruction->opcode() != Opcode::get_tuple_element) return nullptr;
    Instruction* tuple = originals_.at(instruction)[0];
    if (tuple->opcode() != Opcode::tuple || placed_.contains(tuple)) return nullptr;
    const std::vector<Instruction*>& elements = originals_.at(tuple);
    const bool finished = std::all_of(elements.begin(), elements.end(), [&](Instruction* e) {
      return placed_.contains(e) || is_view(*e) || e->opcode() == Opcode::constant;
    });
    if (finished) return nullptr;
    return elements[static_cast<std::size_t>(instruction->attributes().tuple_index)];
  }

  // What `instruction` takes out of a loop that has not run yet, from where the loop would take it:
  // a step may read before the loop what the loop does not change. Null where that is not so.
  Instruction* element_before_loop(Instruction* instruction) {
    if (instruction->opcode() != Opcode::get_tuple_element || !instruction->shape().is_array()) {
      return nullptr;
    }
    Instruction* loop = originals_.at(instruction)[0];
    const auto index = instruction->attributes().tuple_index;
    if (placed_.contains(loop) || loop->opcode() != Opcode::while_ ||
        !passes_through(*loop, ir::leaf_offset(loop->shape(), static_cast<int>(index)))) {
      return nullptr;
    }
    Instruction* initial = originals_.at(loop)[0];
    if (initial->opcode() == Opcode::tuple) {
      return current(originals_.at(initial)[static_cast<std::size_t>(index)]);
    }
    Instruction* element = computation_.add_get_tuple_element(current(initial), index);
    place(element);
    return element;
  }

  ir::Computation& computation_;
  RematNames& names_;
  Instruction* const root_;
  std::vector<Instruction*> order_;
  std::unordered_set<Instruction*> placed_, stale_;
  std::unordered_map<Instruction*, Instruction*> latest_;
  std::unordered_map<Instruction*, std::vector<Instruction*>> originals_, users_;
};

bool apply_all(ir::Module& module, const Plan& plan, RematNames& names,
               std::unordered_set<const ir::Computation*>& done) {
  if (!done.insert(plan.computation).second) return false;
  bool changed = false;
  for (const Step& step : plan.steps) {
    for (const auto& callee : step.callees) {
      changed = apply_all(module, *callee, names, done) || changed;
    }
  }
  Applier applier(*const_cast<ir::Computation*>(plan.computation), names);
  return applier.run(plan) || changed;
}

}  // namespace

Result<bool> apply_plan(ir::Module& module, const Plan& plan) {
  if (plan.computation == nullptr || plan.computation->module() != &module) {
    return invalid_argument("apply_plan: the plan was made for another module");
  }
  if (plan.counts.all_encodes() + plan.counts.swap_out > 0) {
    return invalid_argument(
        "apply_plan: the plan compresses or swaps, which modules have no instructions for (plan "
        "with recomputation alone)");
  }
  RematNames names(module);
  std::unordered_set<const ir::Computation*> done;
  const bool changed = apply_all(module, plan, names, done);
  module.is_scheduled = true;
  return changed;
}

}  // namespace plimsoll::planner
