// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "jit/jit.h"
#include "runtime/base/cancellation.h"
#include "runtime/base/status.h"
#include "runtime/device/device.h"
#include "runtime/device/kernel.h"
#include "runtime/ir/module.h"
#include "runtime/memory/budget/admission.h"
#include "runtime/memory/budget/budget.h"
#include "runtime/passes/passes.h"
#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/cost/measured_costs.h"
#include "runtime/planner/plan_cache.h"
#include "runtime/planner/planner.h"

namespace plimsoll::executor {

// Time and bytes of one kernel name over the runs since the profile was last cleared.
struct ProfileEntry {
  std::string name;  // kernel name, or what the executor does itself: "copy", "swap-out.host", ...
  device::KernelOrigin origin = device::KernelOrigin::own;
  std::int64_t launches = 0, recomputes = 0;
  double seconds = 0;            // on the run's own stream; of transfers, what it waited for them
  double recompute_seconds = 0;  // of these, when computed again
  double transfer_seconds = 0;   // of transfers, on their engine, at the same time
  double bytes = 0;              // read and written, by shapes
};

// The same for one thing that steps do, so that a cost model can learn from it.
struct Measurement : ProfileEntry {
  planner::StepKind kind = planner::StepKind::compute;  // recompute counts as compute
  const ir::Instruction* instruction = nullptr;         // what is computed, or whose value is moved
  int leaf = 0;                                         // of it, where a value is moved
  planner::Codec codec;                                 // encode, decode
  bool codes = false;  // a kernel that decodes or encodes, too: no measure of the instruction's own
};

// How many kernels a run launches, and in how many launches: steps of callees once, however often
// they run.
struct LaunchCounts {
  std::int64_t kernels = 0, launches = 0;
};

// The program's kernels: the optimized module and one kernel per distinct instruction. Plans for
// different limits share it. Immutable after creation; thread-safe.
class Program {
 public:
  // Takes the module over. Runs passes::optimize (unless `optimize` is false: then the module is
  // run as written), and compiles every kernel it needs, in parallel. `machine` is what costs are
  // predicted from until kernels have been measured (calibration.h). `compiler` must outlive what
  // is made of the program.
  static Result<std::shared_ptr<const Program>> create(std::unique_ptr<ir::Module> module,
                                                       jit::Compiler& compiler, bool optimize,
                                                       const planner::Roofline& machine = {});

  const ir::Module& module() const { return *module_; }
  // Null for control flow and for instructions that need none (tuples, parameters, ...).
  const device::Kernel* kernel(const ir::Instruction& instruction) const;
  // The one of a step of that instruction, which decodes and encodes what the step says; compiled
  // when it is first asked for.
  Result<const device::Kernel*> kernel(const planner::Step& step) const;
  // Workspaces from the kernels, seconds from the roofline and from what was measured. The model in
  // force may change between two calls; what a call returned stays valid.
  const planner::CostModel& cost_model() const { return costs_->model(); }
  planner::MeasuredCosts& costs() const { return *costs_; }
  // Plans made for this program by the cost model in force.
  Result<std::shared_ptr<const planner::Plan>> plan(const planner::PlanOptions& options) const {
    return plans_->plan(cost_model(), options);
  }
  // Of this form of it; least_floor asks both.
  Result<planner::Floor> floor(const planner::PlanOptions& options) const {
    return plans_->floor(cost_model(), options);
  }
  const planner::PlanCache& plans() const { return *plans_; }

  // The same program with less fusion, whose kernels hold less at a time; made when it is first
  // asked for. Null where there is none: of those made so, and of modules run as written.
  Result<std::shared_ptr<const Program>> with_fusion(passes::Fusion fusion) const;
  // With vertical fusion only.
  Result<std::shared_ptr<const Program>> less_fused() const {
    return with_fusion(passes::Fusion::vertical);
  }
  passes::Fusion fusion() const { return fusion_; }

 private:
  static Result<std::shared_ptr<Program>> compile(std::unique_ptr<ir::Module> module,
                                                  jit::Compiler& compiler,
                                                  const planner::Roofline& machine);

  std::unique_ptr<ir::Module> module_;
  std::unordered_map<const ir::Instruction*, std::shared_ptr<const device::Kernel>> kernels_;
  jit::Compiler* compiler_ = nullptr;
  mutable std::mutex coding_mutex_;  // guards what follows
  // By instruction and what is coded.
  mutable std::map<std::pair<const ir::Instruction*, std::string>,
                   std::shared_ptr<const device::Kernel>>
      coding_kernels_;
  std::unique_ptr<planner::MeasuredCosts> costs_;
  std::unique_ptr<planner::PlanCache> plans_;
  passes::Fusion fusion_ = passes::Fusion::full;
  // What the less fused forms are made of; no module where there are none.
  struct Source {
    std::unique_ptr<ir::Module> module;
    jit::Compiler* compiler = nullptr;
    planner::Roofline machine;
  };
  Source source_;
  mutable std::mutex forms_mutex_;  // guards what follows
  mutable std::map<passes::Fusion, std::shared_ptr<const Program>> forms_;
};

// A program and a plan of it.
struct ProgramPlan {
  std::shared_ptr<const Program> program;
  std::shared_ptr<const planner::Plan> plan;
};

// The plan for these options: of `program`, or of its less fused form where `program` does not fit
// into the limit, or fits so tightly that the other may be faster. Without either, the error that
// names the lower floor. A program that the limit costs nothing is never made twice.
Result<ProgramPlan> plan_within(std::shared_ptr<const Program> program,
                                const planner::PlanOptions& options);

// The smallest limit that plan_within accepts for sure: the lower of the floors of `program` and of
// its less fused form, which is made for it. The lower bound is that of both.
Result<planner::Floor> least_floor(const Program& program, const planner::PlanOptions& options);

struct Arguments {
  // One per parameter leaf: a device pointer (resident, donated) or a host pointer (host). Donated
  // buffers are overwritten; which outputs they hold afterwards is Executable::output_parameter.
  std::span<void* const> parameters;
  // One per result leaf: where to write it (device), ignored where output_parameter(leaf) >= 0.
  std::span<void* const> outputs;
};

// How a run goes.
struct RunOptions {
  // Where its memory comes from; null: the budget, as far as there is room at the moment.
  memory::Admitted* admitted = nullptr;
  Stop stop;  // looked at before every step
};

// A tier as the planner sees it, at its speed (measured now if it never was).
planner::Tier describe(memory::Tier& tier);
// `options` with what it leaves open: the budget's limit where that is lower, its tiers, the
// parameters' residency.
planner::PlanOptions complete_options(const planner::PlanOptions& options, const Program& program,
                                      const memory::Budget& budget);
// The same, but for the limit.
planner::PlanOptions complete_places(const planner::PlanOptions& options, const Program& program,
                                     const memory::Budget& budget);

// A program with a plan. Immutable; any number of threads may run it at once, each run takes its
// own arena from the budget.
class Executable {
 public:
  // Plans for options.limit_bytes, or the budget's limit where that is lower (plan_within:
  // program() may be the less fused one); tiers that the options leave out are the budget's.
  // RESOURCE_EXHAUSTED with the floor when it can't be met; FAILED_PRECONDITION for constants
  // without values.
  static Result<std::shared_ptr<const Executable>> create(std::shared_ptr<const Program> program,
                                                          const planner::PlanOptions& options,
                                                          memory::Budget& budget);

  // For options that are complete (complete_places), whatever the budget's limit.
  static Result<std::shared_ptr<const Executable>> create(std::shared_ptr<const Program> program,
                                                          const planner::PlanOptions& complete);
  // The same with a plan that was made before, of this program for parameters placed so.
  static Result<std::shared_ptr<const Executable>> create(
      std::shared_ptr<const Program> program, std::shared_ptr<const planner::Plan> plan,
      std::vector<planner::ParameterResidency> residency);

  const Program& program() const { return *program_; }
  const std::shared_ptr<const Program>& shared_program() const { return program_; }
  const planner::Plan& plan() const { return *plan_; }
  // The parameter leaf whose donated buffer holds result leaf `leaf`, or -1.
  int output_parameter(int leaf) const;
  // How parameter leaf `leaf` is passed: as the options said, or (when they said nothing) donated
  // where the module's aliases and donors say so.
  planner::ParameterResidency residency(int leaf) const;

  // Takes the arena from `budget` and the blocks of other tiers from its tiers, runs every step on
  // `stream`, waits. The caller's parameters and outputs must already be accounted for. On an
  // error, CANCELLED and DEADLINE_EXCEEDED among them, donated buffers have undefined contents.
  Status run(device::Stream& stream, memory::Budget& budget, const Arguments& arguments,
             const RunOptions& options = {}) const;

  std::vector<ProfileEntry> profile() const;
  std::vector<Measurement> measurements() const;
  void clear_profile() const;
  // Profiling reads the clock around every step; off by default.
  void enable_profile(bool on) const;
  // Small kernels that do not depend on each other run in one launch (launch_order.h), except where
  // each step is timed. Off: one by one, in the plan's order, with the same bits. On by default,
  // unless PLIMSOLL_LAUNCHES says `apart`.
  void enable_joint_launches(bool on) const;
  // With joint launches on.
  LaunchCounts launches() const;
  // Fault injection for tests: the n-th kernel launch of the next run (1 = first) fails.
  void fail_launch(std::int64_t n) const;
  // Measures some of the runs for Program::costs: not the first, whose memory is new to the
  // machine, the next four, then fewer and fewer down to every 64th, so that reading the clock
  // costs next to nothing. Off by default.
  void enable_sampling(bool on) const;

  struct Impl;
  Executable(std::shared_ptr<const Program> program, std::shared_ptr<const planner::Plan> plan,
             std::unique_ptr<Impl> impl);
  ~Executable();

 private:
  std::shared_ptr<const Program> program_;
  std::shared_ptr<const planner::Plan> plan_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::executor
