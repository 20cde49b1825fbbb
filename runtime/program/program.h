// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/kernel.h"
#include "runtime/device/kernel_provider.h"
#include "runtime/ir/module.h"
#include "runtime/passes/passes.h"
#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/cost/measured_costs.h"
#include "runtime/planner/plan_cache.h"
#include "runtime/planner/planner.h"
#include "runtime/program/prepared_constants.h"
#include "runtime/program/program_form.h"
#include "runtime/program/program_options.h"
#include "runtime/program/resident_constants.h"

namespace plimsoll::executor {

// The program's kernels: the optimized module and one kernel per distinct instruction. Plans for
// different limits share it. Immutable after creation; thread-safe.
class Program : public std::enable_shared_from_this<Program> {
 public:
  // Takes the module over, optimizes it as `options` say, and makes every kernel it needs.
  // `machine` is what costs are predicted from until kernels have been measured (calibration.h).
  // `provider` makes the kernels, of its device; it must outlive what is made of the program.
  static Result<std::shared_ptr<const Program>> create(std::unique_ptr<ir::Module> module,
                                                       device::KernelProvider& provider,
                                                       const ProgramOptions& options = {},
                                                       const planner::Roofline& machine = {});

  const ProgramOptions& options() const { return options_; }
  // As it runs; constants may lie as their kernel wants them (prepared_constants.h).
  const ir::Module& module() const { return *module_; }
  // Null for control flow and for instructions that need none (tuples, parameters, ...).
  const device::Kernel* kernel(const ir::Instruction& instruction) const;
  // The one of a step of that instruction, which decodes and encodes what the step says; compiled
  // when it is first asked for.
  Result<const device::Kernel*> kernel(const planner::Step& step) const;
  device::KernelProvider& provider() const { return *provider_; }
  // Workspaces from the kernels, seconds from the roofline and from what was measured. The model in
  // force may change between two calls; what a call returned stays valid.
  const planner::CostModel& cost_model() const { return costs_->model(); }
  planner::MeasuredCosts& costs() const { return *costs_; }
  // Whether that roofline was measured, not the built-in table.
  bool is_calibrated() const { return is_calibrated_; }
  // Plans made for this program by the cost model in force. CANCELLED soon after `stop` says so.
  Result<std::shared_ptr<const planner::Plan>> plan(const planner::PlanOptions& options,
                                                    const Cancellation* stop = nullptr,
                                                    planner::Refusal refusal = {}) const {
    return plans_->plan(cost_model(), possible(options), stop, refusal);
  }
  // Of this form of it; least_floor asks both.
  Result<planner::Floor> floor(const planner::PlanOptions& options) const {
    return plans_->floor(cost_model(), possible(options));
  }
  const planner::PlanCache& plans() const { return *plans_; }

  // The same program in another form: less merged kernels hold less at a time. Made when it is
  // first asked for; this one, or another that was made before, where there is no difference, or
  // where the form can't be compiled. Null where there are no forms: of those made so, and of
  // modules run as written.
  Result<std::shared_ptr<const Program>> in_form(const ProgramForm& form) const;
  const ProgramForm& form() const { return form_; }
  // Whether there is a form as written (kMostInstructionsAsWritten).
  bool has_form_as_written() const { return source_.as_written != nullptr; }
  // Whether forms may differ in what loops recompute.
  bool has_loops() const { return source_.has_loops; }
  // Whether full fusion may combine collectives that other forms do not.
  bool combines_in_full_fusion() const {
    return source_.prepared != nullptr && !options_.plans_alone &&
           options_.collective_bucket_bytes > 0 &&
           source_.prepared->replica_count * source_.prepared->num_partitions > 1;
  }
  // Where these of its constants, one behind the other, stay on a device from run to run.
  const ResidentConstants& resident(std::span<const ir::Literal* const> constants) const;

 private:
  void forget_unread() const;
  // Without the remedies that the device has no kernels for.
  planner::PlanOptions possible(planner::PlanOptions options) const;
  static Result<std::shared_ptr<Program>> compile(std::unique_ptr<ir::Module> module,
                                                  device::KernelProvider& provider,
                                                  const ProgramOptions& options,
                                                  const planner::Roofline& machine,
                                                  std::shared_ptr<PreparedConstants> prepared,
                                                  std::shared_ptr<planner::MeasuredTimes> times);

  ProgramOptions options_;
  std::unique_ptr<ir::Module> module_;
  Kernels kernels_;
  std::shared_ptr<PreparedConstants> prepared_constants_;  // of all forms
  device::KernelProvider* provider_ = nullptr;
  mutable std::mutex coding_mutex_;  // guards what follows
  // By instruction and what is coded.
  mutable std::map<std::pair<const ir::Instruction*, std::string>,
                   std::shared_ptr<const device::Kernel>>
      coding_kernels_;
  mutable std::mutex resident_mutex_;  // guards what follows
  mutable std::map<std::vector<const ir::Literal*>, ResidentConstants> resident_;
  bool is_calibrated_ = false;
  std::unique_ptr<planner::MeasuredCosts> costs_;
  std::unique_ptr<planner::PlanCache> plans_;
  ProgramForm form_;
  std::uint64_t text_hash_ = 0;  // of the optimized module
  // What other forms are made of; no modules where there are none.
  struct Source {
    std::unique_ptr<ir::Module> prepared;    // passes::prepare
    std::unique_ptr<ir::Module> as_written;  // null also where prepared is another (prepare)
    device::KernelProvider* provider = nullptr;
    planner::Roofline machine;
    bool has_loops = false;
  };
  Source source_;
  mutable std::mutex forms_mutex_;  // guards what follows
  mutable std::map<ProgramForm, std::shared_ptr<const Program>> forms_;
};

}  // namespace plimsoll::executor
