// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "benchmarks/graphs/transformer_graph.h"
#include "benchmarks/planner/planner_benchmark.h"
#include "runtime/planner/check/check.h"
#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/planner.h"
#include "runtime/planner/residency.h"

namespace plimsoll::planner_benchmark {
namespace {

struct Means {
  const char* name;
  planner::Remedies remedies;
  bool link;  // a host tier behind 25 GB/s
};

constexpr Means kMeans[] = {
    {"recompute", {true, false, false, false}, false},
    {"and compress", {true, true, false, false}, false},
    {"and swap", {true, false, true, false}, true},
    {"all", {true, true, true, false}, true},
};

Result<planner::Plan> plan(const ir::Module& module, const Means& means, std::int64_t limit,
                           const planner::TechniqueSet& without) {
  planner::PlanOptions options;
  options.without = without;
  options.parameters = planner::default_residency(module);
  options.limit_bytes = limit;
  options.remedies = means.remedies;
  if (means.link) {
    options.host.bytes = std::int64_t{1} << 40;
    options.host.out_bytes_per_second = options.host.in_bytes_per_second = 25e9;
  }
  return planner::make_plan(module, planner::RooflineCostModel(), options);
}

// One graph under one limit by all means.
Status compare(Section& section, const BenchOptions& options, const std::string& graph,
               const ir::Module& module, double share, std::int64_t peak) {
  const auto limit = static_cast<std::int64_t>(share * static_cast<double>(peak));
  const std::string name = format("%s at %.1f", graph.c_str(), share);
  double by_recomputing = -1;
  for (const Means& means : kMeans) {
    const auto made = plan(module, means, limit, options.without);
    if (!made.ok()) {
      add_line(section, options, format("%-26s %-14s  no plan", name.c_str(), means.name));
      section.missed.push_back(name + ", " + means.name + ": no plan");
      continue;
    }
    const Status proof = planner::check_plan(module, *made);
    if (!proof.ok()) section.broken.push_back(name + ": " + proof.message());
    const double percent = 100 * (made->predicted_seconds / made->unlimited_seconds - 1);
    add_line(section, options,
             format("%-26s %-14s %8.3f %8.3f %8lld %8lld %8lld", name.c_str(), means.name, percent,
                    made->planning_seconds, static_cast<long long>(made->counts.recompute),
                    static_cast<long long>(made->counts.encode),
                    static_cast<long long>(made->counts.swap_out)));
    section.rows.push_back({{"graph", graph},
                            {"ratio", share},
                            {"means", means.name},
                            {"overhead", percent},
                            {"planning_seconds", made->planning_seconds},
                            {"recomputes", made->counts.recompute},
                            {"encodes", made->counts.encode},
                            {"swaps", made->counts.swap_out}});
    if (by_recomputing < 0) {
      by_recomputing = percent;
      continue;
    }
    if (percent > by_recomputing + 1e-9) {
      section.missed.push_back(format("%s, %s: %.3f %%, worse than recomputing alone (%.3f %%)",
                                      name.c_str(), means.name, percent, by_recomputing));
    }
    if (means.link && means.remedies.compress && share == 0.3 && percent > by_recomputing / 3) {
      section.missed.push_back(
          format("%s: %.3f %% with a link and codecs, %.3f points above a "
                 "third of recomputing alone",
                 name.c_str(), percent, percent - by_recomputing / 3));
    }
  }
  return ok_status();
}

}  // namespace

Result<Section> remedies(const BenchOptions& options) {
  Section section;
  section.name = "remedies";
  add_line(section, options,
           format("%-26s %-14s %8s %8s %8s %8s %8s", "remedies", "means", "more %", "plan s",
                  "again", "encoded", "swapped"));
  for (const int size : {3000, 10'000}) {
    if (options.quick && size > 3000) break;
    const std::string graph = format("transformer of %d", size);
    const auto module = graphs::transformer_step_of_size(size);
    const auto unlimited = plan(*module, kMeans[0], planner::kUnlimited, options.without);
    PLIMSOLL_RETURN_IF_ERROR(unlimited.status().with_context(graph));
    for (const double share : {0.5, 0.3}) {
      PLIMSOLL_RETURN_IF_ERROR(
          compare(section, options, graph, *module, share, unlimited->peak_bytes));
    }
  }
  return section;
}

}  // namespace plimsoll::planner_benchmark
