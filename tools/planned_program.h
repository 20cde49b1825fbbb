// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "jit/jit.h"
#include "runtime/executor/executable.h"
#include "runtime/ir/module.h"
#include "runtime/planner/planner.h"
#include "tools/command.h"

namespace plimsoll::tools {

// The flags that `plan`, `run` and `opt` share. Empty: from the environment, else the default.
struct PlanFlags {
  std::string memory_limit;
  std::string planner;
  bool as_written = false;  // skip the optimizing passes
};
void add_plan_flags(CLI::App* command, PlanFlags& flags);

// A program made ready for plans: optimized and, where the JIT and the kernels can, compiled, so
// that workspaces count. What can't be compiled can still be planned, without workspaces.
class PlannedProgram {
 public:
  // `must_compile`: a program that can't be compiled is an error.
  static Outcome create(std::unique_ptr<ir::Module> module, const PlanFlags& flags,
                        bool must_compile, PlannedProgram& out);

  const ir::Module& module() const { return program_ ? program_->module() : *fallback_; }
  const planner::CostModel& cost_model() const;
  const std::shared_ptr<const executor::Program>& program() const { return program_; }
  // Why there are no kernels; empty when there are.
  const std::string& not_compiled() const { return not_compiled_; }

  // The limit the flags (or the environment) ask for, shares resolved.
  std::int64_t limit_bytes() const { return options_.limit_bytes; }
  const planner::PlanOptions& options() const { return options_; }
  const planner::Plan& unlimited() const { return *unlimited_; }
  Result<planner::Plan> plan(std::int64_t limit_bytes) const;
  Result<planner::Floor> floor() const;

 private:
  Outcome resolve_flags(const PlanFlags& flags);

  std::unique_ptr<jit::Compiler> compiler_;
  std::shared_ptr<const executor::Program> program_;
  std::unique_ptr<ir::Module> fallback_;
  std::unique_ptr<planner::CostModel> fallback_cost_;
  std::string not_compiled_;
  planner::PlanOptions options_;
  std::optional<planner::Plan> unlimited_;
};

// The limit and planner that the flags, else the environment ask for; no limit: kUnlimited. Asks
// for `unlimited_peak` only when the limit is a share of it.
Outcome plan_options(const PlanFlags& flags,
                     const std::function<Result<std::int64_t>(planner::Policy)>& unlimited_peak,
                     planner::PlanOptions& out);

// Null for kUnlimited.
Json limit_json(std::int64_t limit_bytes);
// The fields of docs/command.md that `plan` and `run` share.
Json plan_json(const planner::Plan& plan, std::int64_t floor_bytes,
               std::int64_t unlimited_peak_bytes);
std::string plan_text(const planner::Plan& plan, std::int64_t floor_bytes,
                      std::int64_t unlimited_peak_bytes);

}  // namespace plimsoll::tools
