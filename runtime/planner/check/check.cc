// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/check/check.h"

#include <fmt/core.h>
#include <algorithm>
#include <set>
#include <unordered_set>
#include <utility>

#include "runtime/ir/dataflow/views.h"
#include "runtime/planner/check/plan_checker.h"

namespace plimsoll::planner {

using ir::Instruction;
using ir::Opcode;

// The order matters: the later parts take for granted what the earlier ones have proved, that every
// buffer has a sound size and place, and that no two that live at the same time overlap. So
// `execute` may treat buffers as separate boxes with a name in each.
Status PlanChecker::run() {
  if (plan_.computation == nullptr) return fail("no computation");
  resolve_views();
  PLIMSOLL_RETURN_IF_ERROR(check_buffers());
  PLIMSOLL_RETURN_IF_ERROR(check_addresses());
  PLIMSOLL_RETURN_IF_ERROR(execute());
  PLIMSOLL_RETURN_IF_ERROR(check_pinned());
  return check_results();
}

Status PlanChecker::fail(const std::string& what) const {
  std::string where = "plan of computation '";
  where += plan_.computation == nullptr ? "?" : plan_.computation->name();
  where += "'";
  if (step_ >= 0) {
    where += fmt::format(" at step {}", step_.value());
    const Instruction* instruction = plan_.steps[step_].instruction;
    if (instruction != nullptr) where += " (" + instruction->name() + ")";
  }
  return internal_error(where + ": " + what);
}

// Each buffer's content is the name of a value, and a step is a rule on names: it is allowed where
// its inputs hold what its instruction reads, and it puts the names of what the instruction makes
// into its outputs. A plan that ends with the right names therefore computes the right values,
// whatever was recomputed, moved or overwritten on the way.
//
// Example: `p = exp(x); q = neg(p)`, where p is freed and made once more.
//   compute p -> buffer 1     {1: p}
//   free 1                    {}
//   recompute p -> buffer 2   {2: p}
//   compute q: 2 -> buffer 3  {2: p, 3: q}
// Without the third step the last one would read a buffer that does not hold p, and is refused.
Status PlanChecker::execute() {
  std::unordered_set<const Instruction*> done;
  for (step_ = StepId(0); step_ < plan_.steps.end_id(); ++step_) {
    const Step& step = plan_.steps[step_];
    for (const auto* list : {&step.inputs, &step.outputs}) {
      for (std::size_t i = 0; i < list->size(); ++i) {
        const BufferId id = (*list)[i];
        if (id == BufferId()) continue;
        if (!is_buffer(id)) return fail("no such buffer");
        const std::string name = fmt::format("buffer {}", id.value());
        if (!is_alive(id)) return fail(name + " used outside its life");
        // Others may read what a swap_out reads, and loops pass it on.
        const bool runs = step.kind == StepKind::compute || step.kind == StepKind::recompute;
        const bool reads =
            list == &step.inputs || (runs && step.instruction != nullptr &&
                                     passes_through(*step.instruction, static_cast<int>(i)));
        const StepId transfer = in_transfer_[id];
        const bool shares = transfer >= 0 && reads && !is_tier(buffer(id)) &&
                            step.kind != StepKind::free && step.kind != StepKind::swap_out &&
                            plan_.steps[transfer].kind == StepKind::swap_out;
        if (step.kind != StepKind::swap_wait && transfer >= 0 && !shares) {
          return fail(name + " is in a transfer that nobody has waited for");
        }
        const bool moves = step.kind == StepKind::swap_out || step.kind == StepKind::swap_in ||
                           step.kind == StepKind::swap_wait || step.kind == StepKind::free;
        if (is_tier(buffer(id)) && !moves && !is_sliced(step, *list, id)) {
          return fail(name + " is only for transfers");
        }
      }
    }
    PLIMSOLL_RETURN_IF_ERROR(execute(step, done));
  }
  step_ = StepId();
  for (const auto& instruction : plan_.computation->instructions()) {
    if (!is_view(*instruction) && instruction->has_side_effect() &&
        !done.contains(instruction.get())) {
      return fail("'" + instruction->name() + "' has a side effect and never runs");
    }
  }
  return ok_status();
}

bool PlanChecker::is_sliced(const Step& step, const std::vector<BufferId>& list, BufferId id) {
  for (std::size_t leaf = 0; leaf < list.size(); ++leaf) {
    if (list[leaf] == id && sliced_state(step, leaf) == nullptr) return false;
  }
  return true;
}

Status PlanChecker::execute(const Step& step, std::unordered_set<const Instruction*>& done) {
  switch (step.kind) {
    case StepKind::free:
      for (const BufferId id : step.inputs) {
        if (id >= 0 && is_temporary(buffer(id))) content(id) = {};
      }
      return ok_status();
    case StepKind::copy:
    case StepKind::upload:
    case StepKind::download:
      return move(step);
    case StepKind::encode:
    case StepKind::decode:
      return code(step);
    case StepKind::swap_out:
    case StepKind::swap_in:
      return start_transfer(step);
    case StepKind::swap_wait:
      return end_transfer(step);
    default:
      return compute(step, done);
  }
}

// After the last step: each result is in a buffer that the caller can take it from. A callee or an
// entry returns in buffers of their own, or hands a parameter on; a loop's body leaves its state
// where the next round looks for it, and two leaves of the state may well be one value.
Status PlanChecker::check_results() {
  const auto& wanted = leaves_of(*plan_.computation->root());
  const std::vector<const ir::Shape*> shapes = ir::leaves(plan_.computation->root()->shape());
  if (plan_.results.size() != wanted.size()) return fail("wrong number of results");
  std::int64_t outputs = 0;
  std::unordered_set<BufferId> returned;
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    const BufferId id = plan_.results[k];
    if (!shapes[k]->is_array()) continue;
    const std::string name = fmt::format("result {}", k);
    if (!is_buffer(id)) return fail(name + " has no buffer");
    const Buffer& b = buffer(id);
    if (content(id).value != wanted[k] || !content(id).is_value()) {
      return fail(name + " does not hold '" + wanted[k].first->name() + "'");
    }
    const bool fits =
        loop_body_ ? (b.placement == Placement::arena || b.placement == Placement::constant ||
                      (b.placement == Placement::parameter && b.index == static_cast<int>(k)))
                   : ((b.placement == Placement::output && b.index == static_cast<int>(k)) ||
                      b.placement == Placement::parameter);
    if (!fits) return fail(name + " is in a buffer where it may not be");
    if (!loop_body_ && !returned.insert(id).second) return fail(name + " shares its buffer");
    if (b.placement == Placement::output && !b.host) outputs += b.bytes;
    if (b.placement == Placement::arena && !plan_.steps.empty() &&
        b.last_step + 1 != plan_.steps.end_id()) {
      return fail(name + " does not live to the end");
    }
  }
  for (const BufferId id : plan_.buffers.ids()) {
    if (kind_ != Kind::branch || buffer(id).placement != Placement::parameter) continue;
    if (!returned.contains(id) && content(id).value != parameter_contents_[at(buffer(id).index)]) {
      return fail(
          fmt::format("buffer {} is a parameter that no result takes the place of, but is "
                      "written",
                      id.value()));
    }
  }
  return check_peak(outputs);
}

// What lives for the whole run (parameters on the device, outputs, constants) and the arena take
// their bytes side by side, so that the peak is a sum and no maximum over steps. `live_bytes` has
// in the arena's place the most bytes that are alive at one step: the difference is what packing
// has lost.
Status PlanChecker::check_peak(std::int64_t outputs) {
  std::int64_t parameters = 0;
  for (const Buffer& b : plan_.buffers) {
    if (b.placement == Placement::parameter && !b.host) parameters += b.bytes;
  }
  const std::int64_t fixed = parameters + outputs + plan_.by_cause.constants;
  if (plan_.peak_bytes != fixed + plan_.arena_bytes) return fail("the peak is not what it says");
  if (plan_.live_bytes != fixed + live_arena_) return fail("live_bytes is not what it says");
  if (plan_.peak_bytes > plan_.limit_bytes) return fail("the peak is above the limit");
  return ok_status();
}

namespace {

// Of each computation once, however many call it: constants are loaded once a module. Callees of
// other instructions (a reduce's sum, a fusion's parts) have no buffers.
std::int64_t module_constant_bytes(const ir::Computation& computation,
                                   std::unordered_set<const ir::Computation*>& seen) {
  if (!seen.insert(&computation).second) return 0;
  std::int64_t bytes = 0;
  for (const auto& instruction : computation.instructions()) {
    if (instruction->opcode() == Opcode::constant) {
      for (const ir::Shape* shape : ir::leaves(instruction->shape())) {
        bytes += aligned_bytes(shape->byte_size());
      }
    }
    if (ir::op_info(instruction->opcode()).op_class != ir::OpClass::control) continue;
    for (const ir::Computation* callee : instruction->called_computations()) {
      bytes += module_constant_bytes(*callee, seen);
    }
  }
  return bytes;
}

// Of the constants that come when they are needed, and so are not on the device; -1 where one of
// them is there as well.
std::int64_t streamed_constant_bytes(const Plan& plan) {
  std::set<std::pair<const Instruction*, int>> resident, streamed;
  std::int64_t bytes = 0;
  for (const Buffer& b : plan.buffers) {
    if (b.placement != Placement::constant) continue;
    if (!b.host) {
      resident.emplace(b.source, b.leaf);
    } else if (streamed.emplace(b.source, b.leaf).second) {
      bytes += b.bytes;
    }
  }
  const bool both = std::any_of(streamed.begin(), streamed.end(),
                                [&](const auto& constant) { return resident.contains(constant); });
  return both ? -1 : bytes;
}

}  // namespace

PlanProof prove_plan(const ir::Module& module, const Plan& plan) {
  if (plan.computation != module.entry()) {
    return {internal_error("the plan is not one of the entry computation"), 0};
  }
  std::unordered_set<const ir::Computation*> seen;
  const std::int64_t streamed = streamed_constant_bytes(plan);
  if (streamed < 0) return {internal_error("a constant is on the device and comes there, too"), 0};
  if (plan.by_cause.constants != module_constant_bytes(*module.entry(), seen) - streamed) {
    return {internal_error("the plan counts the constants wrong"), 0};
  }
  PlanChecker::Visited visited{{&plan, PlanChecker::Kind::entry}};
  Status status = PlanChecker(plan, PlanChecker::Kind::entry, visited).run();
  return {std::move(status), static_cast<std::int64_t>(visited.size())};
}

Status check_plan(const ir::Module& module, const Plan& plan) {
  return prove_plan(module, plan).status;
}

}  // namespace plimsoll::planner
