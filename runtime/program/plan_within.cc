// SPDX-License-Identifier: Apache-2.0
#include "runtime/program/plan_within.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/index.h"
#include "runtime/base/one_thread.h"

namespace plimsoll::executor {
namespace {

using passes::Fusion;
using passes::Residuals;

// Fusion saves time and may cost memory: a fused kernel needs all its inputs at once and bears all
// its results at once. What a loop stacks for another saves the other's time and costs memory.
// Each of these may need less than the one before it, and more time.
constexpr std::array kLessFused = {Fusion::vertical, Fusion::narrow, Fusion::as_written};
constexpr std::array kResiduals = {Residuals::cheaper, Residuals::elementwise, Residuals::products,
                                   Residuals::carried, Residuals::segments};
// Forms in which some rounds of the loops recompute products, and the others do not: as much
// memory, and as much time, lies between those in which all or none do.
constexpr std::array kPercents = {25, 50, 75};
constexpr std::array kOfSomeRounds = {Residuals::products, Residuals::carried};

// Those that make a difference and that the remedies allow: what costs time is a recomputation.
std::span<const Residuals> residuals_for(const Program& program,
                                         const planner::PlanOptions& options) {
  const bool recompute = options.remedies.recompute && options.policy == planner::Policy::default_;
  return std::span(kResiduals).first(recompute && program.has_loops() ? kResiduals.size() : 1);
}

// What decides whether a limit is accepted: in full fusion all residuals, and their extremes in
// less. The first is the fastest without a limit.
std::vector<ProgramForm> all_forms(const Program& program, const planner::PlanOptions& options) {
  const std::span<const Residuals> residuals = residuals_for(program, options);
  std::vector<ProgramForm> forms;
  for (const Residuals each : residuals) forms.push_back({Fusion::full, each});
  if (program.combines_in_full_fusion()) {
    for (const Residuals each : residuals) forms.push_back({Fusion::full, each, 100, false});
  }
  for (const Fusion fusion : kLessFused) {
    if (fusion == Fusion::as_written && !program.has_form_as_written()) continue;
    forms.push_back({fusion, residuals.front()});
    if (residuals.size() > 1 && fusion != Fusion::as_written) {
      forms.push_back({fusion, Residuals::carried});
      forms.push_back({fusion, Residuals::segments});
    }
  }
  return forms;
}

// A copy that says how long all of it took.
void set_planning_seconds(ProgramPlan& made, double seconds) {
  auto plan = std::make_shared<planner::Plan>(*made.plan);
  // One that was made before took what it took then.
  plan->planning_seconds = std::max(plan->planning_seconds, seconds);
  made.plan = std::move(plan);
}

// Searches of several forms at once, each on a thread of its own as far as there are processors and
// PLIMSOLL_NUM_THREADS allows. What they find is kept by each form's PlanCache, where whoever asks
// for it next, in an order that decides, finds it. Nothing on a thread that is to keep to itself
// (OneThread), or for programs so large that nothing is kept.
void search_at_once(const std::vector<std::shared_ptr<const Program>>& forms,
                    const std::function<void(const Program&)>& search) {
  const std::int64_t processors = std::thread::hardware_concurrency();
  // A bad value is reported where contexts are made.
  const auto allowed = count_variable(Variable::num_threads, processors);
  const std::size_t most = std::min(forms.size(), at(allowed.ok() ? *allowed : processors));
  if (most < 2 || OneThread::is_in_force() || !forms[0]->plans().keeps_searches()) return;
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < forms.size(); i = next++) {
      try {
        search(*forms[i]);
      } catch (...) {  // no memory, say: whoever asks next meets it, where it can be told
      }
    }
  };
  std::vector<std::thread> threads;
  try {
    while (threads.size() + 1 < most) threads.emplace_back(work);
  } catch (const std::system_error&) {  // no more threads: those that there are do all of it
  }
  work();
  for (std::thread& thread : threads) thread.join();
}

double elapsed_seconds(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The forms of a program tried under one limit, and the fastest plan of all.
class Trials {
 public:
  Trials(const Program& program, const planner::PlanOptions& options, const Cancellation* stop)
      : program_(program), options_(options), stop_(stop) {}

  // True when the form was not tried before in another name, fits, and takes no longer under the
  // limit than without.
  Result<bool> run(const ProgramForm& form) {
    const auto start = std::chrono::steady_clock::now();
    auto is_free = plan(form);
    seconds_ += elapsed_seconds(start);
    return is_free;
  }

  Status run_all(std::span<const ProgramForm> forms) {
    PLIMSOLL_RETURN_IF_ERROR(plan_at_once(forms));
    for (const ProgramForm& form : forms) PLIMSOLL_RETURN_IF_ERROR(run(form).status());
    return ok_status();
  }
  // Plans those of `forms` that run() would plan, were they tried next. Changes nothing but how
  // long that takes.
  Status plan_at_once(std::span<const ProgramForm> forms) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::shared_ptr<const Program>> open;
    for (const ProgramForm& form : forms) {
      PLIMSOLL_ASSIGN_OR_RETURN(auto made, program_.in_form(form));
      if (made == nullptr || is_tried(made) ||
          std::find(open.begin(), open.end(), made) != open.end()) {
        continue;
      }
      open.push_back(std::move(made));
    }
    if (open.size() > 1) {
      search_at_once(open, [this](const Program& form) {
        if (!has_plan() || may_be_faster(form)) (void)plan_of(form);
      });
    }
    seconds_ += elapsed_seconds(start);
    return ok_status();
  }

  bool leaves_out_forms() const { return options_.without.contains(planner::Technique::forms); }
  bool has_plan() const { return best_.plan != nullptr; }
  const ProgramForm& best_form() const { return best_.program->form(); }
  Result<ProgramPlan> result() {
    if (!has_plan()) return refusal();
    if (tried_.size() > 1) set_planning_seconds(best_, seconds_);
    return best_;
  }

 private:
  Result<bool> plan(const ProgramForm& form) {
    if (stop_ != nullptr && stop_->is_cancelled()) {
      return Status(StatusCode::cancelled, "plan_within: cancelled by the caller");
    }
    PLIMSOLL_ASSIGN_OR_RETURN(auto made, program_.in_form(form));
    if (made == nullptr) made = program_.shared_from_this();  // the only one
    if (is_tried(made)) return false;
    tried_.push_back(made);
    if (has_plan() && !may_be_faster(*made)) return false;
    const std::uint64_t version = made->costs().version();
    auto plan = plan_of(*made);
    if (plan.status().code() == StatusCode::resource_exhausted) {
      if (plan.status().shortage() != nullptr) note(plan.status());
      return false;
    }
    PLIMSOLL_RETURN_IF_ERROR(plan.status());
    const bool costs_time = (*plan)->predicted_seconds > (*plan)->unlimited_seconds;
    if (best_.plan == nullptr || (*plan)->predicted_seconds < best_.plan->predicted_seconds) {
      best_ = {made, std::move(*plan), version};
    }
    return !costs_time;
  }

  // Why a form does not fit matters only where none does, and is asked then, of the search that was
  // kept.
  Result<std::shared_ptr<const planner::Plan>> plan_of(const Program& form) const {
    const bool keeps = form.plans().keeps_searches();
    return form.plan(options_, stop_,
                     keeps ? planner::Refusal::brief : planner::Refusal::explained);
  }

  void note(const Status& refused) {
    if (refusal_.ok() || refused.shortage()->floor_bytes < refusal_.shortage()->floor_bytes) {
      refusal_ = refused;
    }
  }

  // Of all forms tried, none of which fits.
  Status refusal() {
    for (const auto& form : tried_) {
      if (!form->plans().keeps_searches()) continue;
      const Status refused = form->plan(options_, stop_).status();
      if (refused.shortage() == nullptr) return refused;
      note(refused);
    }
    return refusal_;
  }

  bool is_tried(const std::shared_ptr<const Program>& form) const {
    return std::find(tried_.begin(), tried_.end(), form) != tried_.end();
  }
  // No limit makes a form faster than it is without one, which takes as long by a first plan.
  bool may_be_faster(const Program& form) const {
    planner::PlanOptions unlimited = options_;
    unlimited.limit_bytes = planner::kUnlimited;
    unlimited.effort = planner::Effort::first;
    const auto plan = form.plan(unlimited, stop_);
    return !plan.ok() || (*plan)->predicted_seconds < best_.plan->predicted_seconds;
  }

  const Program& program_;
  const planner::PlanOptions& options_;
  const Cancellation* const stop_;
  std::vector<std::shared_ptr<const Program>> tried_;
  ProgramPlan best_;
  double seconds_ = 0;
  Status refusal_;  // the one that names the lowest floor
};

// The first plan that fits, of the forms that cost no kernels beside those of loops; nothing where
// none does. Residuals are those of loops, and passes alone take longer than a first plan.
Result<std::optional<ProgramPlan>> first_plan_within(const Program& program,
                                                     const planner::PlanOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  for (const Residuals residuals : residuals_for(program, options)) {
    PLIMSOLL_ASSIGN_OR_RETURN(auto made, program.in_form({Fusion::full, residuals}));
    if (made == nullptr) made = program.shared_from_this();  // the only one
    const std::uint64_t version = made->costs().version();
    auto plan = made->plan(options);
    if (plan.ok()) {
      ProgramPlan first{made, std::move(*plan), version, nullptr, true};
      if (residuals != kResiduals.front()) set_planning_seconds(first, elapsed_seconds(start));
      return std::optional(std::move(first));
    }
    if (plan.status().code() != StatusCode::resource_exhausted) return plan.status();
  }
  return std::optional<ProgramPlan>();
}

// Where the first form costs no time, that is it; else all are tried that are faster without a
// limit than the best so far is under this one. What is stacked for a backward loop is recomputed
// there as far as that is faster than what the plan does without, and kernels are taken apart where
// memory is too short for them, or where it makes the step faster. The forms of some rounds lie
// between those of all rounds and are looked at first, as they leave least to do for the rest.
Result<ProgramPlan> fastest_plan_within(const Program& program, const planner::PlanOptions& options,
                                        const Cancellation* stop) {
  Trials trials(program, options, stop);
  std::vector<ProgramForm> forms;
  for (const Residuals residuals : residuals_for(program, options)) {
    forms.push_back({Fusion::full, residuals});
  }
  PLIMSOLL_ASSIGN_OR_RETURN(const bool is_free, trials.run(forms.front()));
  if (is_free) return trials.result();
  forms.erase(forms.begin());
  PLIMSOLL_RETURN_IF_ERROR(trials.run_all(forms));
  // Forms that lie between these are tried where one of these fits.
  if (trials.has_plan() && !trials.leaves_out_forms() && !forms.empty()) {
    forms.clear();
    for (const int percent : kPercents) {
      for (const Residuals residuals : kOfSomeRounds) {
        forms.push_back({Fusion::full, residuals, percent});
      }
    }
    PLIMSOLL_RETURN_IF_ERROR(trials.run_all(forms));
  }
  if (trials.has_plan() && trials.leaves_out_forms()) return trials.result();
  PLIMSOLL_RETURN_IF_ERROR(trials.run_all(all_forms(program, options)));
  return trials.result();
}

}  // namespace

Result<ProgramPlan> plan_within(std::shared_ptr<const Program> program,
                                const planner::PlanOptions& asked, const Cancellation* stop) {
  planner::PlanOptions options = asked;
  const bool in_background = asked.effort == planner::Effort::background && !asked.remedies.lossy;
  if (in_background || asked.effort == planner::Effort::first) {
    options.effort = planner::Effort::first;
    PLIMSOLL_ASSIGN_OR_RETURN(std::optional<ProgramPlan> first,
                              first_plan_within(*program, options));
    if (first) {
      first->asked = std::move(program);
      return std::move(*first);
    }
  }
  options.effort = planner::Effort::full;
  Result<ProgramPlan> made = fastest_plan_within(*program, options, stop);
  if (made.ok()) made->asked = std::move(program);
  return made;
}

Result<planner::Floor> least_floor(const Program& program, const planner::PlanOptions& options) {
  const auto search = [&options](const Program& form) { (void)form.floor(options); };
  std::vector<std::shared_ptr<const Program>> forms{program.shared_from_this()};
  const auto add_forms = [&]() -> Status {
    for (const ProgramForm& form : all_forms(program, options)) {
      PLIMSOLL_ASSIGN_OR_RETURN(const auto made, program.in_form(form));
      if (made != nullptr && std::find(forms.begin(), forms.end(), made) == forms.end()) {
        forms.push_back(made);
      }
    }
    return ok_status();
  };
  // Of small programs many need no form but their own, for which no other is made then.
  const bool is_small = program.has_form_as_written();
  if (!is_small) {
    PLIMSOLL_RETURN_IF_ERROR(add_forms());
    search_at_once(forms, search);
  }
  PLIMSOLL_ASSIGN_OR_RETURN(planner::Floor least, program.floor(options));
  if (least.bytes <= least.callers_bytes) return least;  // which are there in every form
  if (is_small) {
    PLIMSOLL_RETURN_IF_ERROR(add_forms());
    search_at_once(forms, search);
  }
  for (std::size_t i = 1; i < forms.size(); ++i) {
    if (least.bytes <= least.callers_bytes) break;
    PLIMSOLL_ASSIGN_OR_RETURN(planner::Floor floor, forms[i]->floor(options));
    const std::int64_t bound = std::min(least.lower_bound_bytes, floor.lower_bound_bytes);
    if (floor.bytes < least.bytes) least = std::move(floor);
    least.lower_bound_bytes = bound;
  }
  return least;
}

Status beside_code(const Status& refusal, const device::Device& device) {
  const std::int64_t code = device.overhead_bytes();
  const MemoryShortage* const shortage = refusal.shortage();
  if (shortage == nullptr || shortage->floor_bytes == 0 || code == 0) return refusal;
  MemoryShortage all = *shortage;
  all.limit_bytes += code;
  all.floor_bytes += code;
  std::string message =
      fmt::format("{}; with {} bytes of code and libraries on {}, a limit of {} would do",
                  refusal.message(), code, device.name(), all.floor_bytes);
  return Status::resource_exhausted(std::move(message), std::move(all));
}

}  // namespace plimsoll::executor
