// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>

#include "benchmarks/graphs/shape_graph.h"
#include "benchmarks/planner/planner_benchmark.h"
#include "runtime/passes/passes.h"
#include "runtime/planner/check/check.h"
#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/planner.h"
#include "runtime/planner/residency.h"

namespace plimsoll::planner_benchmark {
namespace {

// Of a first plan: 20 us an instruction, and 40 of many.
double most_seconds(int instructions) {
  if (instructions <= 1000) return 0.02;
  return instructions <= 10'000 ? 0.3 : 4;
}

struct First {
  double unlimited_seconds = 0;  // to plan without a limit
  double seconds = 0;            // to plan at a share of the peak that this gives, in per cent
  int percent = 0;               // 0: nothing was found
  std::int64_t recomputed = 0;
  double percent_more = 0;
};

// The first plan at half the peak, or where there is none, as near to it as one is found.
Result<First> plan_first(Section& section, const std::string& name, const ir::Module& module) {
  const planner::RooflineCostModel cost_model;
  planner::PlanOptions options;
  options.parameters = planner::default_residency(module);
  options.effort = planner::Effort::first;
  First first;
  const Stopwatch unlimited_watch;
  const auto unlimited = planner::make_plan(module, cost_model, options);
  first.unlimited_seconds = unlimited_watch.seconds();
  PLIMSOLL_RETURN_IF_ERROR(unlimited.status().with_context(name));
  for (const int percent : {50, 60, 75, 90}) {
    options.limit_bytes = unlimited->peak_bytes / 100 * percent;
    const Stopwatch watch;
    const auto plan = planner::make_plan(module, cost_model, options);
    first.seconds = watch.seconds();
    if (!plan.ok() && plan.status().code() != StatusCode::resource_exhausted) return plan.status();
    if (!plan.ok()) continue;
    first.percent = percent;
    first.recomputed = plan->counts.recompute;
    first.percent_more = 100 * (plan->predicted_seconds / plan->unlimited_seconds - 1);
    const Status proof = planner::check_plan(module, *plan);
    if (!proof.ok()) section.broken.push_back(name + ": " + proof.message());
    if (plan->peak_bytes > options.limit_bytes) {
      section.broken.push_back(name + ": above the limit");
    }
    break;
  }
  if (first.percent != 50) section.missed.push_back(name + ": no first plan at half the peak");
  return first;
}

void compare(Section& section, const std::string& what, double seconds, double aim) {
  if (seconds <= aim) return;
  section.missed.push_back(
      format("%s in %.3f s, %.3f s above the aim", what.c_str(), seconds, seconds - aim));
}

Json row_of(const First& first) {
  return {{"unlimited_planning_seconds", first.unlimited_seconds},
          {"planning_seconds", first.seconds},
          {"limit_percent", first.percent},
          {"recompute", first.recomputed},
          {"overhead", first.percent_more}};
}

// Seconds by what takes them.
using Times = std::array<double, 3>;
constexpr const char* kTimes[] = {"passes", "plan of kernels", "plan as written"};

Result<Times> measure(Section& section, const BenchOptions& options, graphs::GraphShape shape,
                      int size) {
  const std::string name = std::string(graphs::to_string(shape)) + " of " + std::to_string(size);
  const std::unique_ptr<ir::Module> written = graphs::graph_of_shape(shape, size);
  const std::unique_ptr<ir::Module> kernels = written->clone();
  const Stopwatch watch;
  PLIMSOLL_RETURN_IF_ERROR(passes::optimize(*kernels));
  const double passes_seconds = watch.seconds();
  PLIMSOLL_ASSIGN_OR_RETURN(const First compiled,
                            plan_first(section, name + ", compiled", *kernels));
  PLIMSOLL_ASSIGN_OR_RETURN(const First plain,
                            plan_first(section, name + ", as written", *written));
  const double aim = most_seconds(size);
  add_line(section, options,
           format("%-14s %8lld %9.3f %8lld %8.3f %3d %% %8.2f %8.3f %3d %% %8.2f %6.2f",
                  std::string(graphs::to_string(shape)).c_str(),
                  static_cast<long long>(written->instruction_count()), passes_seconds,
                  static_cast<long long>(kernels->entry()->instruction_count()), compiled.seconds,
                  compiled.percent, compiled.percent_more, plain.seconds, plain.percent,
                  plain.percent_more, aim));
  section.rows.push_back({{"shape", graphs::to_string(shape)},
                          {"size", size},
                          {"instructions", written->instruction_count()},
                          {"passes_seconds", passes_seconds},
                          {"compiled_instructions", kernels->entry()->instruction_count()},
                          {"compiled", row_of(compiled)},
                          {"as_written", row_of(plain)},
                          {"aim_seconds", aim}});
  compare(section, name + ", compiled: planned", compiled.seconds, aim);
  compare(section, name + ", as written: planned", plain.seconds, aim);
  return Times{passes_seconds, compiled.seconds, plain.seconds};
}

}  // namespace

Result<Section> shapes_of(const BenchOptions& options, std::span<const int> sizes) {
  constexpr double kMostGrowth = 1.2;
  constexpr double kLeastSeconds = 0.01;  // of which a growth says something
  Section section;
  section.name = "shapes";
  add_line(section, options,
           format("%-14s %8s %9s %8s %8s %5s %8s %8s %5s %8s %6s", "shape", "instrs", "passes s",
                  "kernels", "plan s", "at", "more %", "plain s", "at", "more %", "aim s"));
  for (const graphs::GraphShape shape : graphs::kGraphShapes) {
    Times before{};
    int size_before = 0;
    for (const int size : sizes) {
      PLIMSOLL_ASSIGN_OR_RETURN(const Times times, measure(section, options, shape, size));
      for (std::size_t i = 0; i < times.size(); ++i) {
        if (before[i] < kLeastSeconds) continue;
        const double exponent =
            std::log(times[i] / before[i]) / std::log(static_cast<double>(size) / size_before);
        if (exponent <= kMostGrowth) continue;
        section.missed.push_back(format("%s, %s: from %d to %d time grows with exponent %.2f",
                                        std::string(graphs::to_string(shape)).c_str(), kTimes[i],
                                        size_before, size, exponent));
      }
      before = times;
      size_before = size;
    }
  }
  return section;
}

Result<Section> shapes(const BenchOptions& options) {
  constexpr std::array kSizes = {1000, 10'000, 100'000};
  return shapes_of(options, std::span(kSizes).first(options.quick ? 2 : kSizes.size()));
}

}  // namespace plimsoll::planner_benchmark
