// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/training_steps/measure.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "benchmarks/training_steps/settle.h"
#include "runtime/base/index.h"
#include "runtime/base/sha256.h"

namespace plimsoll::benchmarks {
namespace {

using nlohmann::json;

Context make_context(const Method& method) {
  // The environment is the public way to choose remedies and tiers; contexts read it when made.
  setenv("PLIMSOLL_REMEDIES", method.remedies.c_str(), 1);
  setenv("PLIMSOLL_HOST_LIMIT", method.host_limit.c_str(), 1);
  ContextOptions options;
  options.memory_limit_bytes = PLM_NO_LIMIT;
  options.planner = method.planner;
  options.seed = 1;
  return Context(options);
}

double cpu_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// What some steps in a row left behind.
struct BlockResult {
  bool fits = true;
  std::int64_t floor_bytes = 0;  // where one didn't fit
  std::string sha256;            // after the last
  std::int64_t peak_bytes = 0;
  std::vector<double> seconds, cpu_seconds;  // of all but the first
  json report;                               // of the last
};

// One method's training, in a context of its own.
class Run {
 public:
  explicit Run(const Method& method) : method_(method), context_(make_context(method)) {}

  const Method& method() const { return method_; }
  void start(const Workload& workload) {
    const ContextScope scope(context_);
    training_ = workload.start();
  }
  std::string text() {
    const ContextScope scope(context_);
    const Tensor loss = record(0);
    std::vector<plm_tensor*> handles;
    for (const Tensor& tensor : state(loss)) handles.push_back(tensor.handle());
    const char* text = nullptr;
    internal::check(plm_trace_text(context_.handle(), handles.data(), handles.size(), &text));
    return text;
  }
  MemoryNeeds needs(std::int64_t step) {
    const ContextScope scope(context_);
    Tensor loss = record(step);
    const MemoryNeeds needs = context_.measure_step();
    finish(loss);
    return needs;
  }
  // `steps` steps of numbers from `first` on, one right behind the other as in a training, all
  // but the first timed. One that doesn't fit is run without a limit, so that all trainings stay
  // abreast. Plans in the background end before it does, as they would take a processor from
  // others' blocks.
  BlockResult block(std::int64_t first, int steps, std::int64_t limit) {
    const ContextScope scope(context_);
    context_.set_limit(limit);
    context_.reset_peak();
    BlockResult result;
    Tensor loss;
    for (int i = 0; i < steps; ++i) {
      loss = Tensor();  // the last step's would take room beside this one's
      loss = record(first + i);
      try {
        const double start = cpu_seconds();
        context_.step();
        context_.wait();
        const double cpu = cpu_seconds() - start;
        result.report = json::parse(context_.report());
        if (i == 0) continue;
        result.seconds.push_back(result.report.at("step_seconds"));
        result.cpu_seconds.push_back(cpu);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::resource_exhausted) throw;
        result.fits = false;
        result.floor_bytes = error.floor_bytes();
        context_.remove_limit();
        context_.step();
        context_.wait();
        context_.set_limit(limit);
      }
    }
    result.report = wait_for_plans(context_);
    result.peak_bytes = context_.memory().peak_bytes;
    result.sha256 = finish(loss);
    return result;
  }

 private:
  Tensor record(std::int64_t step) {
    Tensor loss = training_.loss(*training_.network, step);
    loss.backward();
    training_.optimizer->record_step();
    return loss;
  }
  std::vector<Tensor> state(const Tensor& loss) const {
    std::vector<Tensor> all = training_.network->parameters();
    for (const auto& more : {training_.network->buffers(), training_.optimizer->state()}) {
      all.insert(all.end(), more.begin(), more.end());
    }
    all.push_back(loss);
    return all;
  }
  // Of the loss and everything that lives on.
  std::string finish(Tensor& loss) {
    context_.remove_limit();
    context_.step();
    const std::vector<Tensor> all = state(loss);
    loss = Tensor();
    Sha256 hash;
    std::vector<std::byte> bytes;
    for (const Tensor& tensor : all) {
      bytes.resize(static_cast<std::size_t>(tensor.byte_size()));
      tensor.read_bytes(bytes.data(), bytes.size());
      hash.update(bytes);
    }
    return hash.finish();
  }

  Method method_;
  Context context_;
  Training training_;
};

double percent_over(double seconds, double base) {
  return base > 0 ? 100 * (seconds / base - 1) : 0;
}

void take_report(StepRow& row, const json& report) {
  row.predicted_seconds = report.at("expected_seconds");
  row.unlimited_seconds = report.at("expected_unlimited_seconds");
  row.predicted_percent = percent_over(row.predicted_seconds, row.unlimited_seconds);
  const double unlimited = report.at("unlimited_seconds");
  row.planned_percent = percent_over(report.at("predicted_seconds"), unlimited);
  const double bound = report.at("lower_bound_seconds");
  row.lower_bound_percent = bound > 0 ? percent_over(bound, unlimited) : 0;
  row.replans = report.at("replans");
  row.trials = report.at("trials");
  row.planning_seconds = report.at("planning_seconds");
  const json& steps = report.at("steps");
  row.recomputes = steps.at("recompute");
  row.encodes = steps.at("encode");
  row.swaps = steps.at("swap_out");
}

double median(std::vector<double> of) {
  const auto middle = of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2);
  std::nth_element(of.begin(), middle, of.end());
  return *middle;
}

// All methods under one limit, in turns with the run without a limit.
std::vector<StepRow> measure_limit(Run& unlimited, std::vector<std::unique_ptr<Run>>& runs,
                                   const StepRow& form, const MeasureOptions& options,
                                   std::int64_t& step) {
  std::vector<StepRow> rows(runs.size(), form);
  // Of each block the median, of each method those of all rounds over the same round's without a
  // limit: what else runs on the machine comes and goes, and a round is short.
  struct Rounds {
    std::vector<double> seconds, percent, cpu_percent;
  };
  std::vector<Rounds> rounds(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    rows[i].method = runs[i]->method().name;
    rows[i].ran = true;
  }
  // A block of each, whose first one is number `first`. Whether a plan has changed or may change.
  const auto go_round = [&](std::size_t first, int steps, bool counts) {
    bool has_any_changed = false;
    const BlockResult base = unlimited.block(step, steps, PLM_NO_LIMIT);
    for (std::size_t turn = 0; turn < runs.size(); ++turn) {
      const std::size_t i = (turn + first) % runs.size();
      StepRow& row = rows[i];
      const BlockResult result = runs[i]->block(step, steps, form.limit_bytes);
      row.ran = row.ran && result.fits;
      row.same_bits = row.same_bits && result.sha256 == base.sha256;
      row.sha256 = result.sha256;
      row.floor_bytes = std::max(row.floor_bytes, result.floor_bytes);
      if (!result.fits) continue;
      row.peak_bytes = std::max(row.peak_bytes, result.peak_bytes);
      row.segments = result.report.at("segments");
      if (row.segments > 0) continue;  // no plan for the step as a whole that could be compared
      const bool has_changed =
          row.replans != result.report.at("replans") || row.trials != result.report.at("trials");
      has_any_changed = has_any_changed || has_changed || result.report.value("is_trying", false);
      if (!counts || has_changed) {
        take_report(row, result.report);
        rounds[i] = {};
        continue;
      }
      rounds[i].seconds.push_back(median(result.seconds));
      rounds[i].percent.push_back(percent_over(median(result.seconds), median(base.seconds)));
      rounds[i].cpu_percent.push_back(
          percent_over(median(result.cpu_seconds), median(base.cpu_seconds)));
    }
    step += steps;
    return has_any_changed;
  };
  constexpr std::size_t kLeastWarmUps = 2, kMostWarmUps = 12;
  bool changes = true;
  for (std::size_t i = 0; i < kMostWarmUps && (i < kLeastWarmUps || changes); ++i) {
    changes = go_round(i, options.warm_up, false);
  }
  // Until enough rounds have passed in which no plan changed.
  const auto is_enough = [&] {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const bool counts = rows[i].ran && rows[i].segments == 0;
      if (counts && rounds[i].seconds.size() < at(options.rounds)) return false;
    }
    return true;
  };
  constexpr int kMostTimes = 4;
  for (int i = 0; i < kMostTimes * options.rounds && (i < options.rounds || !is_enough()); ++i) {
    go_round(at(i), options.block + 1, true);
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (rounds[i].seconds.empty()) continue;
    rows[i].step_seconds = median(rounds[i].seconds);
    rows[i].measured_percent = median(rounds[i].percent);
    rows[i].cpu_percent = median(rounds[i].cpu_percent);
  }
  return rows;
}

}  // namespace

std::string step_text(const Workload& workload) {
  Run run({"text", "default", "recompute", "0"});
  run.start(workload);
  return run.text();
}

std::vector<Method> all_methods() {
  return {{"recompute", "default", "recompute", "0"},
          {"all", "default", "recompute,compress,swap", "4GiB"},
          {"greedy", "greedy", "recompute", "0"},
          {"sqrt", "sqrt", "recompute", "0"}};
}

std::vector<StepRow> measure(const Workload& workload, const std::vector<Method>& methods,
                             const MeasureOptions& options,
                             const std::function<void(const StepRow&)>& progress) {
  Run unlimited({"unlimited", "default", "recompute", "0"});
  unlimited.start(workload);
  std::vector<std::unique_ptr<Run>> runs;
  for (const Method& method : methods) {
    runs.push_back(std::make_unique<Run>(method));
    runs.back()->start(workload);
  }
  std::int64_t step = 0;
  MemoryNeeds needs = unlimited.needs(step);
  for (const auto& run : runs) {
    const MemoryNeeds own = run->needs(step);
    if (run->method().planner != "default") continue;
    needs.floor_bytes = std::max(needs.floor_bytes, own.floor_bytes);
  }
  ++step;

  std::vector<StepRow> limits;
  StepRow form;
  form.workload = workload.name;
  for (const double percent : options.percents) {
    char name[32];
    std::snprintf(name, sizeof name, "%g%%", percent);
    form.limit = name;
    form.limit_bytes = static_cast<std::int64_t>(
        std::floor(percent / 100 * static_cast<double>(needs.unlimited_peak_bytes)));
    limits.push_back(form);
  }
  form.limit = "floor";
  form.limit_bytes = needs.floor_bytes;
  limits.push_back(form);

  std::vector<StepRow> rows;
  for (const StepRow& limit : limits) {
    for (StepRow& row : measure_limit(unlimited, runs, limit, options, step)) {
      progress(row);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace plimsoll::benchmarks
