// SPDX-License-Identifier: Apache-2.0
// The planner's schedules and lower bounds of small training steps against the optimum that an
// integer program gives: one JSON object, and the same as a table on standard error. Needs `cbc`;
// without it, only ours and the bound are printed.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "benchmarks/command_line/command_line.h"
#include "benchmarks/exact/instances.h"
#include "benchmarks/exact/integer_program.h"
#include "runtime/planner/bound/bound.h"
#include "runtime/planner/remat/search.h"

namespace {

using namespace plimsoll;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Extra seconds in per cent of running everything once; infinite: nothing found, or none there is.
struct Row {
  std::string name;
  int ops = 0;
  std::int64_t limit = 0;
  double share = 0;  // limit over unlimited peak
  double bound = 0, ours = kInfinite, optimum = kInfinite, solver_seconds = 0;
  bool solved = false;
};

std::string text(double overhead, bool known) {
  if (!known) return "?";
  if (std::isinf(overhead)) return "none";
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.2f", overhead);
  return buffer;
}

nlohmann::ordered_json number(double overhead, bool known) {
  if (!known || std::isinf(overhead)) return nullptr;
  return overhead;
}

Row measure(const exact::Instance& instance, std::int64_t limit, std::int64_t peak, bool solver,
            const std::string& folder, double seconds) {
  const planner::Problem& problem = instance.problem;
  Row row;
  row.name = instance.name;
  row.ops = problem.op_count();
  row.limit = limit;
  row.share = static_cast<double>(limit) / static_cast<double>(peak);
  double base = 0;
  for (const planner::Op& op : problem.ops) base += op.seconds;
  const auto overhead = [&](double total) { return 100 * (total / base - 1); };
  row.bound = overhead(planner::lower_bound_seconds(problem, limit));
  if (const auto schedule = planner::search_schedule(problem, limit, 0, {})) {
    row.ours = overhead(planner::total_seconds(problem, *schedule));
  }
  if (!solver) return row;
  const exact::Answer answer = exact::solve(problem, limit, folder, seconds);
  row.solver_seconds = answer.solver_seconds;
  row.solved = answer.outcome != exact::Answer::Outcome::stopped;
  if (answer.outcome == exact::Answer::Outcome::optimal) {
    row.optimum = overhead(base + answer.extra_seconds);
  }
  return row;
}

}  // namespace

int main(int argc, char** argv) {
  int random = 6;
  double seconds = 60;
  plimsoll::benchmarks::CommandLine line("The planner against the optimum of small problems.",
                                         "exact");
  line.add("--random", random, "Random training graphs");
  line.add("--seconds", seconds, "The solver's time for each limit");
  if (const auto status = line.read(argc, argv)) return *status;

  const bool solver = exact::solver_installed();
  if (!solver) {
    std::cerr << "exact: cbc is not installed (Debian: coinor-cbc): no optimum\n";
  }
  std::vector<exact::Instance> instances;
  for (int i = 0; i < random; ++i) {
    instances.push_back(exact::random_graph(4 + i % 7, static_cast<std::uint32_t>(i)));
  }
  for (std::uint32_t seed = 0; seed < 2; ++seed) {
    instances.push_back(exact::encoder_decoder(2, seed));
    instances.push_back(exact::residual_network(2, seed));
    instances.push_back(exact::residual_network(3, seed));
  }
  const std::string folder =
      std::filesystem::temp_directory_path() / ("plimsoll-exact-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);

  std::vector<Row> rows;
  std::fprintf(stderr, "%-20s %4s %6s %5s %8s %8s %8s %8s\n", "problem", "ops", "limit", "share",
               "bound %", "optimum", "ours", "solver s");
  for (const exact::Instance& instance : instances) {
    const planner::Schedule once = planner::each_once(instance.problem);
    const std::int64_t peak = planner::evaluate(instance.problem, once).arena_peak;
    const std::int64_t least =
        planner::least_arena_bytes(planner::make_bound_model(instance.problem, 1));
    for (const int part : {3, 2, 1, 0}) {
      const std::int64_t limit = least + (peak - least) * part / 4;
      const Row row = measure(instance, limit, peak, solver, folder, seconds);
      std::fprintf(stderr, "%-20s %4d %6lld %5.2f %8s %8s %8s %8.2f\n", row.name.c_str(), row.ops,
                   static_cast<long long>(row.limit), row.share, text(row.bound, true).c_str(),
                   text(row.optimum, row.solved).c_str(), text(row.ours, true).c_str(),
                   row.solver_seconds);
      rows.push_back(row);
    }
  }
  std::filesystem::remove_all(folder);

  nlohmann::ordered_json table = nlohmann::ordered_json::array();
  int solved = 0, feasible = 0, found = 0, optimal = 0, sound = 0;
  double our_gap = 0, bound_gap = 0, worst = 0;
  for (const Row& row : rows) {
    table.push_back({{"problem", row.name},
                     {"ops", row.ops},
                     {"limit", row.limit},
                     {"share_of_peak", row.share},
                     {"bound_percent", number(row.bound, true)},
                     {"optimum_percent", number(row.optimum, row.solved)},
                     {"ours_percent", number(row.ours, true)},
                     {"solver_seconds", row.solver_seconds}});
    if (!row.solved) continue;
    ++solved;
    if (row.bound <= row.optimum + 1e-4) ++sound;
    if (std::isinf(row.optimum)) continue;
    ++feasible;
    if (std::isinf(row.ours)) continue;
    ++found;
    if (row.ours <= row.optimum + 1e-4) ++optimal;
    our_gap += row.ours - row.optimum;
    worst = std::max(worst, row.ours - row.optimum);
    bound_gap += row.optimum - row.bound;
  }
  nlohmann::ordered_json json = {{"benchmark", "exact"}, {"solver", solver}, {"rows", table}};
  if (solved > 0) {
    json["solved"] = solved;
    json["feasible"] = feasible;
    json["found"] = found;
    json["optimal"] = optimal;
    json["bound_at_most_optimum"] = sound;
    json["mean_gap_of_ours_points"] = our_gap / std::max(1, found);
    json["worst_gap_of_ours_points"] = worst;
    json["mean_gap_of_bound_points"] = bound_gap / std::max(1, found);
  }
  std::cout << json.dump(2) << "\n";
  return 0;
}
