// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/recorded/recorded_swap_bound.h"

#include <algorithm>
#include <vector>

#include "runtime/planner/bound/bound.h"
#include "runtime/planner/remedies/link_bytes.h"

namespace plimsoll::planner {

double swap_bound_seconds(const Problem& problem, std::int64_t arena_limit, const Tier& tier,
                          double most_seconds) {
  constexpr int kLevels = 64, kHalvings = 7;
  std::vector<double> seconds;
  double base = 0;
  for (const Op& op : problem.ops) {
    seconds.push_back(op.seconds);
    base += op.seconds;
  }
  PerTier<Tier> tiers;
  tiers.host = tier;
  const auto too_little = [&](double more) {
    const RelaxedProblem relaxed =
        add_bytes(problem, bytes_in_tiers(seconds, tiers, more), kLevels, Rounding::up);
    return lower_bound_seconds(relaxed.problem, arena_limit + relaxed.most) > base + more;
  };
  // What is too little is a bound: with less, the link carries less yet.
  double bound = 0, above = most_seconds - base;
  if (above <= 0 || !too_little(0)) return std::min(base, most_seconds);
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (bound + above) / 2;
    (too_little(middle) ? bound : above) = middle;
  }
  return std::min(base + bound, most_seconds);
}

}  // namespace plimsoll::planner
