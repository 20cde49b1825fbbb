// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/index.h"

namespace plimsoll::planner {

// A stretch of time steps over which bytes may be kept, and the seconds that keeping all of them
// saves. Any part of the bytes may be kept for that part of the seconds.
struct Stretch {
  std::int32_t first = 0, last = -1;  // time steps, inclusive
  std::int64_t bytes = 0;
  double seconds = 0;
};

// Chooses what to keep under a capacity per time step so that the most seconds are saved, exactly,
// and prices every time step: what one byte more there would save. In bytes the constraints have
// consecutive ones, so this is a minimum-cost flow along a line of time steps (network simplex on a
// spanning tree of the line's nodes).
class LinePrices {
 public:
  // `available`: bytes per time step, none negative.
  LinePrices(std::span<const std::int64_t> available, std::vector<Stretch> stretches);

  // Changes what a stretch saves; the next solve() starts from the last solution.
  void set_seconds(std::int32_t stretch, double seconds);

  // At most about `steps` elementary steps. True: the optimum was reached; the prices are of use
  // either way, and never negative.
  bool solve(std::int64_t steps);

  // Seconds per byte at each time step.
  std::vector<double> prices() const;
  std::int64_t kept(std::int32_t stretch) const { return flow_[at(time_steps_ + stretch)]; }
  std::int64_t steps_spent() const { return spent_; }

 private:
  double reduced_cost(std::int32_t arc) const;
  void rebuild_potentials();
  void link(std::int32_t node, std::int32_t parent, std::int32_t arc);
  void unlink(std::int32_t node);
  void relabel(std::int32_t root, double shift);
  bool pivot(std::int32_t entering);

  std::int32_t time_steps_;
  // Arcs: per time step its unused bytes, then the stretches.
  std::vector<std::int32_t> tail_, head_;
  std::vector<std::int64_t> capacity_, flow_;
  std::vector<double> cost_;
  std::vector<char> in_tree_;
  // The tree over time_steps_ + 1 nodes, rooted at node 0.
  std::vector<std::int32_t> parent_, parent_arc_, depth_, first_child_, next_, previous_;
  std::vector<double> potential_;
  std::vector<std::int32_t> stack_;
  std::int32_t cursor_ = 0;
  std::int64_t spent_ = 0;
};

}  // namespace plimsoll::planner
