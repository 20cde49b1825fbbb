// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include "benchmarks/planner/planner_benchmark.h"
#include "benchmarks/planner/reference.h"
#include "benchmarks/recorded/recorded_plan.h"
#include "benchmarks/replayer/replay.h"

namespace plimsoll::planner_benchmark {
namespace {

// n steps forward, each of the one before, and n backward: step i needs the gradient of step i + 1
// and the value before step i. A byte and a microsecond each. The published optima are those of
// this form: the first backward step reads nothing.
replayer::Model chain(std::int32_t n) {
  constexpr std::int64_t kNanoseconds = 1000;
  replayer::Model model;
  model.peak_bytes = n;
  model.storages.resize(static_cast<std::size_t>(2 * n), {1, false, false});
  model.storages.back().pinned = true;
  for (std::int32_t i = 0; i < 2 * n; ++i) {
    model.tensors.push_back({i, i});
    replayer::Operation operation{kNanoseconds, {}, {{i, true}}};
    if (i < n) {
      if (i > 0) operation.arguments = {i - 1};
    } else if (i > n) {
      const std::int32_t forward = 2 * n - 1 - i;
      if (forward > 0) operation.arguments.push_back(forward - 1);
      operation.arguments.push_back(i - 1);
    }
    model.operations.push_back(std::move(operation));
  }
  model.results = {2 * n - 1};
  return model;
}

}  // namespace

Result<Section> unit_chains(const BenchOptions& options) {
  Section section;
  section.name = "unit_chains";
  const std::string path = options.data + "/dtr-simrd/reference/uniform_chain.csv";
  PLIMSOLL_ASSIGN_OR_RETURN(const Csv csv, read_csv(path));
  const int n_column = csv.column("n"), limit_column = csv.column("budget"),
            optimum_column = csv.column("optimal_extra");
  if (n_column < 0 || limit_column < 0 || optimum_column < 0) {
    return invalid_argument(path + ": a column is missing");
  }
  add_line(section, options,
           format("%-12s %5s %8s %8s %8s", "unit chain", "limit", "ours", "optimum", "plan s"));
  for (const auto& row : csv.rows) {
    const auto number = [&](int column) {
      const std::string& text = row[static_cast<std::size_t>(column)];
      std::int32_t value = -1;
      std::from_chars(text.data(), text.data() + text.size(), value);
      return value;
    };
    const std::int32_t n = number(n_column), limit = number(limit_column);
    const std::int32_t optimum = number(optimum_column);
    if (n <= 0 || (options.quick && n > 200)) continue;
    const replayer::Model model = chain(n);
    const std::string text = replayer::to_text(model);
    PLIMSOLL_ASSIGN_OR_RETURN(const auto step, planner::parse_recorded_step(text, "chain"));
    planner::SearchEffort effort;
    effort.seconds = options.seconds;
    effort.without = options.without;
    const Stopwatch watch;
    const auto plan = planner::plan_recorded_step(step, limit, effort);
    const double seconds = watch.seconds();
    const std::string name = format("a chain of %d under %d", n, limit);
    std::int64_t extra = -1;
    if (plan.ok()) {
      const auto replay =
          replayer::replay(model, planner::schedule_text(step, plan->schedule), {limit, false});
      if (replay.ok()) {
        extra = replay->runs - 2 * n;
      } else {
        section.broken.push_back(name + ": the replayer refuses: " + replay.status().message());
      }
      if (optimum >= 0 && extra >= 0 && extra < optimum) {
        section.broken.push_back(format("%s: %lld more steps, fewer than the optimum %d",
                                        name.c_str(), static_cast<long long>(extra), optimum));
      }
    }
    add_line(
        section, options,
        format("%-12d %5d %8s %8s %8.3f", n, limit, extra < 0 ? "-" : std::to_string(extra).c_str(),
               optimum < 0 ? "-" : std::to_string(optimum).c_str(), seconds));
    section.rows.push_back({{"n", n},
                            {"limit", limit},
                            {"extra", extra < 0 ? Json(nullptr) : Json(extra)},
                            {"optimum", optimum < 0 ? Json(nullptr) : Json(optimum)},
                            {"planning_seconds", seconds}});
    if (extra < 0) {
      section.missed.push_back(name + ": no plan is found");
    } else if (optimum >= 0 && extra != optimum) {
      section.missed.push_back(format("%s: %lld more steps, the optimum is %d", name.c_str(),
                                      static_cast<long long>(extra), optimum));
    }
  }
  return section;
}

}  // namespace plimsoll::planner_benchmark
