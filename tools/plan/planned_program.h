// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/ir/module.h"
#include "runtime/memory/budget/budget.h"
#include "runtime/planner/plan_cache.h"
#include "runtime/planner/planner.h"
#include "runtime/program/plan_within.h"
#include "runtime/program/program_compiler.h"
#include "tools/command.h"
#include "tools/plan/plan_flags.h"

namespace plimsoll::tools {

// With the time that it took to find: no question takes the planner longer.
struct FoundFloor : planner::Floor {
  double seconds = 0;
};

// A program made ready for plans: optimized and, where the JIT and the kernels can, compiled, so
// that workspaces count. What can't be compiled can still be planned, without workspaces. Every
// question about its plans is answered by one search.
class PlannedProgram {
 public:
  // `must_compile`: a program that can't be compiled is an error.
  static Outcome create(std::unique_ptr<ir::Module> module, const PlanFlags& flags,
                        bool must_compile, PlannedProgram& out);

  const ir::Module& module() const { return program() ? program()->module() : *fallback_; }
  const planner::CostModel& cost_model() const;
  const std::shared_ptr<const executor::Program>& program() const { return fitting_.program; }
  // "full", or a lesser one where only that fits into the limit, or is faster within it.
  std::string_view fusion() const;
  // What loops recompute that others could stack for them: "cheaper", or more.
  std::string_view residuals() const;
  int recomputed_percent() const;
  // Lines of text where they are not "full" and "cheaper".
  std::string form_text() const;
  // Why there are no kernels; empty when there are.
  const std::string& not_compiled() const { return not_compiled_; }

  // What the flags (or the environment) ask for, shares resolved, tiers included.
  const planner::PlanOptions& options() const { return options_; }
  // Of the device's memory, with what code takes of it, which the options' limit is without.
  std::int64_t limit_bytes() const { return limit_bytes_; }
  const memory::Tiers& tiers() const { return tiers_; }
  const planner::Plan& unlimited() const { return *unlimited_; }
  const executor::ProgramCompiler& compiler() const { return *compiler_; }
  // program(), null where it could not be compiled, and the plan of module() for these options.
  const executor::ProgramPlan& fitting() const { return fitting_; }
  const planner::Plan& plan() const { return *fitting_.plan; }
  // What code takes of the device's memory now.
  std::int64_t code_bytes() const;
  // Of the form of the program that suits this limit, which is for code, too.
  Result<std::shared_ptr<const planner::Plan>> fitting_plan(std::int64_t limit_bytes) const;
  // The smallest limit for which there is a fitting plan, with what code takes now.
  Result<FoundFloor> floor() const;

 private:
  Outcome resolve_options(const PlanFlags& flags);
  const device::Device& device() const;
  Result<executor::ProgramPlan> plan_within(const planner::PlanOptions& options) const;

  std::shared_ptr<const executor::ProgramCompiler> compiler_;
  std::shared_ptr<const executor::Program> fused_;  // in full fusion
  executor::ProgramPlan fitting_;                   // in the form that fits into the limit
  std::unique_ptr<ir::Module> fallback_;
  std::unique_ptr<planner::CostModel> fallback_cost_;
  std::unique_ptr<planner::PlanCache> fallback_plans_;
  std::string not_compiled_;
  planner::PlanOptions options_;
  std::int64_t limit_bytes_ = planner::kUnlimited;
  memory::Tiers tiers_;
  std::shared_ptr<const planner::Plan> unlimited_;
};

// By how much `value` is above `bound` at most, in percent; 0 for a bound that is met.
double gap_percent(double value, double bound);
// The fields of docs/command.md that `plan` and `run` share. `unlimited` is the plan without a
// limit. Those about the floor are null where nobody asked for it.
Json plan_json(const planner::Plan& plan, const std::optional<FoundFloor>& floor,
               const planner::Plan& unlimited);
// Without lines about the floor where nobody asked for it.
std::string plan_text(const planner::Plan& plan, const std::optional<FoundFloor>& floor,
                      const planner::Plan& unlimited);

}  // namespace plimsoll::tools
