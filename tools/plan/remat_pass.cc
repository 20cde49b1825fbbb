// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/remat_pass.h"

#include <fmt/core.h>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/ir/shapes/verifier.h"

namespace plimsoll::tools {
namespace {

using ir::Computation;
using ir::Instruction;
using ir::Module;

class Rebuilder {
 public:
  explicit Rebuilder(Module& target) : target_(target) {}

  Result<Computation*> rebuild(const planner::Plan& plan);

 private:
  // The newest copy of each instruction of one computation.
  using Newest = std::unordered_map<const Instruction*, Instruction*>;

  Result<Computation*> callee(const Computation& original);
  Status add(const Instruction& original, std::string_view name, Newest& newest,
             Computation& computation, std::vector<Computation*> callees);
  Status bring(const Instruction& original, Newest& newest, Computation& computation);

  Module& target_;
  std::unordered_map<const Computation*, Computation*> callees_;
};

Result<Computation*> Rebuilder::callee(const Computation& original) {
  const auto found = callees_.find(&original);
  if (found != callees_.end()) return found->second;
  Computation* copy = target_.add_clone(original);
  callees_.emplace(&original, copy);
  return copy;
}

Status Rebuilder::add(const Instruction& original, std::string_view name, Newest& newest,
                      Computation& computation, std::vector<Computation*> callees) {
  std::vector<Instruction*> operands;
  for (const Instruction* operand : original.operands()) {
    PLIMSOLL_RETURN_IF_ERROR(bring(*operand, newest, computation));
    operands.push_back(newest.at(operand));
  }
  if (callees.empty()) {
    for (const Computation* called : original.called_computations()) {
      PLIMSOLL_ASSIGN_OR_RETURN(Computation * copy, callee(*called));
      callees.push_back(copy);
    }
  }
  Instruction* copy = computation.add(original.opcode(), original.shape(), std::move(operands),
                                      name, original.attributes());
  copy->set_called_computations(std::move(callees));
  for (const Instruction* before : original.control_predecessors()) {
    PLIMSOLL_RETURN_IF_ERROR(bring(*before, newest, computation));
    copy->add_control_predecessor(newest.at(before));
  }
  newest[&original] = copy;
  return ok_status();
}

// Makes sure that a current copy exists. Instructions without a step of their own (tuples and their
// elements, bitcasts, constants) follow the newest copies of their operands.
Status Rebuilder::bring(const Instruction& original, Newest& newest, Computation& computation) {
  const auto found = newest.find(&original);
  const ir::OpClass op_class = ir::op_info(original.opcode()).op_class;
  const bool follows =
      op_class == ir::OpClass::structure || original.opcode() == ir::Opcode::bitcast;
  if (found != newest.end()) {
    if (!follows) return ok_status();
    bool current = true;
    for (int i = 0; i < original.operand_count(); ++i) {
      PLIMSOLL_RETURN_IF_ERROR(bring(*original.operand(i), newest, computation));
      current = current && newest.at(&original)->operand(i) == newest.at(original.operand(i));
    }
    if (current) return ok_status();
  }
  return add(original, original.name(), newest, computation, {});
}

Result<Computation*> Rebuilder::rebuild(const planner::Plan& plan) {
  const Computation& original = *plan.computation;
  // Callees are made before their caller, as a module's order of computations wants.
  IdVector<planner::StepId, std::vector<Computation*>> callees(plan.steps.size());
  for (const planner::StepId t : plan.steps.ids()) {
    for (const auto& callee_plan : plan.steps[t].callees) {
      if (callee_plan->counts.recompute == 0) {
        PLIMSOLL_ASSIGN_OR_RETURN(Computation * copy, callee(*callee_plan->computation));
        callees[t].push_back(copy);
      } else {
        PLIMSOLL_ASSIGN_OR_RETURN(Computation * copy, rebuild(*callee_plan));
        callees[t].push_back(copy);
      }
    }
  }
  for (const auto& instruction : original.instructions()) {
    for (const Computation* called : instruction->called_computations()) {
      PLIMSOLL_RETURN_IF_ERROR(callee(*called).status());
    }
  }
  Computation* computation = target_.add_computation(original.name());
  Newest newest;
  for (const Instruction* parameter : original.parameters()) {
    PLIMSOLL_RETURN_IF_ERROR(add(*parameter, parameter->name(), newest, *computation, {}));
  }
  std::unordered_map<const Instruction*, int> copies;
  for (const planner::StepId t : plan.steps.ids()) {
    const planner::Step& step = plan.steps[t];
    const bool runs = step.kind == planner::StepKind::compute ||
                      step.kind == planner::StepKind::recompute ||
                      step.kind == planner::StepKind::collective_start ||
                      step.kind == planner::StepKind::collective_done;
    if (!runs || step.instruction == nullptr) continue;
    std::string name = step.instruction->name();
    if (step.kind == planner::StepKind::recompute) {
      const int copy = ++copies[step.instruction];
      name += copy == 1 ? ".remat" : fmt::format(".remat{}", copy);
    }
    PLIMSOLL_RETURN_IF_ERROR(
        add(*step.instruction, name, newest, *computation, std::move(callees[t])));
  }
  PLIMSOLL_RETURN_IF_ERROR(bring(*original.root(), newest, *computation));
  computation->set_root(newest.at(original.root()));
  return computation;
}

}  // namespace

Result<std::unique_ptr<Module>> module_of_plan(const Module& module, const planner::Plan& plan) {
  auto target = std::make_unique<Module>(module.name());
  Rebuilder rebuilder(*target);
  PLIMSOLL_ASSIGN_OR_RETURN(Computation * entry, rebuilder.rebuild(plan));
  target->set_entry(entry);
  target->remove_unreachable();
  target->is_scheduled = true;
  target->input_output_alias = module.input_output_alias;
  target->buffer_donor = module.buffer_donor;
  target->replica_count = module.replica_count;
  target->num_partitions = module.num_partitions;
  target->extra = module.extra;
  PLIMSOLL_RETURN_IF_ERROR(ir::verify(*target));
  return target;
}

}  // namespace plimsoll::tools
