// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include "benchmarks/graphs/transformer_graph.h"
#include "benchmarks/planner/planner_benchmark.h"
#include "runtime/planner/check/check.h"
#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/planner.h"
#include "runtime/planner/residency.h"

namespace plimsoll::planner_benchmark {
namespace {

std::int64_t status_bytes(const std::string& name) {
  std::ifstream file("/proc/self/status");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with(name + ":")) return 1024 * std::atoll(line.c_str() + name.size() + 1);
  }
  return 0;
}

// The most memory of this process from here on; 0 where the system doesn't tell.
class PeakMemory {
 public:
  PeakMemory() {
    std::ofstream("/proc/self/clear_refs") << "5";
    before_ = status_bytes("VmRSS");
  }
  std::int64_t bytes() const { return std::max<std::int64_t>(0, status_bytes("VmHWM") - before_); }

 private:
  std::int64_t before_ = 0;
};

std::int64_t count_instructions(const ir::Module& module) {
  std::int64_t count = 0;
  for (const auto& computation : module.computations()) {
    count += std::ssize(computation->instructions());
  }
  return count;
}

struct Timed {
  double seconds = 0;
  std::int64_t memory_bytes = 0;
  Result<planner::Plan> plan = internal_error("not planned");
};

Timed plan(const ir::Module& module, std::int64_t limit, double planning_seconds) {
  const planner::RooflineCostModel cost_model;
  planner::PlanOptions options;
  options.parameters = planner::default_residency(module);
  options.limit_bytes = limit;
  options.planning_seconds = planning_seconds;
  options.remedies = {true, false, false, false};
  Timed timed;
  const PeakMemory memory;
  const Stopwatch watch;
  timed.plan = planner::make_plan(module, cost_model, options);
  timed.seconds = watch.seconds();
  timed.memory_bytes = memory.bytes();
  return timed;
}

double percent_more(const planner::Plan& plan) {
  return 100 * (plan.predicted_seconds / plan.unlimited_seconds - 1);
}

// One graph at half its peak.
Result<double> plan_half(Section& section, const BenchOptions& options, const std::string& name,
                         const ir::Module& module, double most_seconds) {
  const std::int64_t instructions = count_instructions(module);
  const Timed unlimited = plan(module, planner::kUnlimited, 0);
  PLIMSOLL_RETURN_IF_ERROR(unlimited.plan.status().with_context(name));
  const std::int64_t limit = unlimited.plan->peak_bytes / 2;
  const Timed half = plan(module, limit, options.seconds);
  if (!half.plan.ok()) {
    add_line(section, options, name + ": no plan: " + half.plan.status().message());
    section.missed.push_back(name + ": no plan at half the peak");
    return half.seconds;
  }
  const Status proof = planner::check_plan(module, *half.plan);
  if (!proof.ok()) section.broken.push_back(name + ": " + proof.message());
  if (half.plan->peak_bytes > limit) section.broken.push_back(name + ": above the limit");
  const double per_instruction =
      static_cast<double>(half.memory_bytes) / static_cast<double>(instructions);
  add_line(section, options,
           format("%-28s %8lld %8.3f %8.3f %8.3f %8.3f %10.0f", name.c_str(),
                  static_cast<long long>(instructions), half.seconds, most_seconds,
                  percent_more(*half.plan),
                  100 * (half.plan->lower_bound_seconds / half.plan->unlimited_seconds - 1),
                  per_instruction));
  section.rows.push_back({{"graph", name},
                          {"instructions", instructions},
                          {"planning_seconds", half.seconds},
                          {"aim_seconds", most_seconds},
                          {"unlimited_planning_seconds", unlimited.seconds},
                          {"overhead", percent_more(*half.plan)},
                          {"bytes_per_instruction", per_instruction}});
  if (half.seconds > most_seconds) {
    section.missed.push_back(format("%s: planned in %.3f s, %.3f s above the aim", name.c_str(),
                                    half.seconds, half.seconds - most_seconds));
  }
  return half.seconds;
}

}  // namespace

Result<Section> growth(const BenchOptions& options) {
  Section section;
  section.name = "growth";
  add_line(section, options,
           format("%-28s %8s %8s %8s %8s %8s %10s", "at half the peak", "instrs", "plan s", "aim s",
                  "more %", "bound %", "bytes/ins"));
  struct {
    int size;
    double most_seconds;
  } const sizes[] = {{1000, 1}, {10'000, 10}, {100'000, 60}};
  double first_seconds = 0, last_seconds = 0;
  int first_size = 0, last_size = 0;
  for (const auto& [size, most_seconds] : sizes) {
    if (options.quick && size > 10'000) break;
    const auto module = graphs::transformer_step_of_size(size);
    PLIMSOLL_ASSIGN_OR_RETURN(
        const double seconds,
        plan_half(section, options, format("transformer of %d", size), *module, most_seconds));
    if (first_size == 0) {
      first_size = size;
      first_seconds = seconds;
    }
    last_size = size;
    last_seconds = seconds;
  }
  const double exponent = std::log(last_seconds / first_seconds) /
                          std::log(static_cast<double>(last_size) / first_size);
  add_line(section, options, format("growth exponent %.3f (aim 1.2)", exponent));
  section.rows.push_back({{"growth_exponent", exponent}, {"aim", 1.2}});
  if (exponent > 1.2) {
    section.missed.push_back(format("planning time grows with exponent %.3f, %.3f above the aim",
                                    exponent, exponent - 1.2));
  }
  graphs::TransformerOptions repeated;
  repeated.layers = 100;
  repeated.form = graphs::Layers::called;
  const auto called = graphs::transformer_step(repeated);
  PLIMSOLL_RETURN_IF_ERROR(
      plan_half(section, options, "100 layers, called", *called, 0.05).status());
  return section;
}

}  // namespace plimsoll::planner_benchmark
