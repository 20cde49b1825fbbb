// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/flow/line_flow.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/base/index.h"

// Which bytes to keep, as a flow along the line of time steps.
//
// The linear program. Stretch i has bytes b_i over the time steps first_i .. last_i and saves s_i
// seconds if all of it is kept; x_i in [0, b_i] bytes are kept. At every time step t the sum of x_i
// over the stretches that cover t is at most available_t. Wanted: the greatest sum of x_i s_i /
// b_i. Each column of the constraint matrix has consecutive ones, so taking differences of
// neighbouring rows turns it into the incidence matrix of a graph: a node between any two time
// steps, an arc from t to t + 1 for what is available at time step t, and an arc from first_i to
// last_i + 1 for stretch i, of capacity b_i and cost -s_i / b_i. What flows through the cut at time
// step t, kept bytes and free bytes together, is available_t. A minimum-cost flow is the optimum,
// and the network simplex finds it.
//
// Example: two time steps with room for 60 bytes each. A covers both, 100 bytes, 3 s (0.03 per
// byte); B covers the first, 40 bytes, 2 s (0.05 per byte). Optimum: all of B, and 20 bytes of A:
// 2.6 s. The arc of free bytes at time step 0 is empty, that of time step 1 carries 40. One byte
// more at time step 0 would keep one more of A: its price is 0.03; one byte more at time step 1 is
// worth nothing: 0. The prices are the reduced costs of the arcs of free bytes.
//
// The method. A basis is a spanning tree; at first it is the line itself (nothing is kept). An arc
// whose reduced cost says that flow along it pays enters the tree and closes a cycle; flow is
// pushed around it until an arc of the cycle is full or empty, which leaves. Potentials change by
// the same amount in the part that was cut off (relabel). Choosing the leaving arc as pivot() does
// keeps the tree strongly feasible (Cunningham, 1976), so that degenerate steps cannot go round for
// ever. Arcs are looked at in blocks of about sqrt(arcs), and the best of a block enters. A changed
// saving leaves the flow feasible: solving again starts from the last optimum and takes few steps.

namespace plimsoll::planner {
namespace {

constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max() / 4;

}  // namespace

LinePrices::LinePrices(std::span<const std::int64_t> available, std::vector<Stretch> stretches)
    : time_steps_(static_cast<std::int32_t>(available.size())) {
  const std::size_t arcs = available.size() + stretches.size();
  tail_.reserve(arcs);
  head_.reserve(arcs);
  capacity_.reserve(arcs);
  for (std::int32_t t = 0; t < time_steps_; ++t) {
    tail_.push_back(t);
    head_.push_back(t + 1);
    capacity_.push_back(kUnbounded);
    cost_.push_back(0);
    flow_.push_back(available[at(t)]);
  }
  for (const Stretch& s : stretches) {
    tail_.push_back(s.first);
    head_.push_back(s.last + 1);
    capacity_.push_back(s.bytes);
    cost_.push_back(-s.seconds / static_cast<double>(std::max<std::int64_t>(1, s.bytes)));
    flow_.push_back(0);
  }
  in_tree_.assign(arcs, 0);
  std::fill(in_tree_.begin(), in_tree_.begin() + time_steps_, 1);
  const std::size_t nodes = available.size() + 1;
  parent_.assign(nodes, -1);
  parent_arc_.assign(nodes, -1);
  depth_.assign(nodes, 0);
  first_child_.assign(nodes, -1);
  next_.assign(nodes, -1);
  previous_.assign(nodes, -1);
  potential_.assign(nodes, 0);
  for (std::int32_t node = 1; node <= time_steps_; ++node) {
    link(node, node - 1, node - 1);
    depth_[at(node)] = node;
  }
}

void LinePrices::set_seconds(std::int32_t stretch, double seconds) {
  const std::size_t arc = at(time_steps_ + stretch);
  cost_[arc] = -seconds / static_cast<double>(std::max<std::int64_t>(1, capacity_[arc]));
}

double LinePrices::reduced_cost(std::int32_t arc) const {
  return cost_[at(arc)] + potential_[at(tail_[at(arc)])] - potential_[at(head_[at(arc)])];
}

void LinePrices::link(std::int32_t node, std::int32_t parent, std::int32_t arc) {
  parent_[at(node)] = parent;
  parent_arc_[at(node)] = arc;
  const std::int32_t first = first_child_[at(parent)];
  next_[at(node)] = first;
  previous_[at(node)] = -1;
  if (first >= 0) previous_[at(first)] = node;
  first_child_[at(parent)] = node;
}

void LinePrices::unlink(std::int32_t node) {
  const std::int32_t before = previous_[at(node)], after = next_[at(node)];
  if (before >= 0) {
    next_[at(before)] = after;
  } else {
    first_child_[at(parent_[at(node)])] = after;
  }
  if (after >= 0) previous_[at(after)] = before;
}

void LinePrices::relabel(std::int32_t root, double shift) {
  stack_.assign(1, root);
  while (!stack_.empty()) {
    const std::int32_t node = stack_.back();
    stack_.pop_back();
    ++spent_;
    potential_[at(node)] += shift;
    depth_[at(node)] = depth_[at(parent_[at(node)])] + 1;
    for (std::int32_t c = first_child_[at(node)]; c >= 0; c = next_[at(c)]) stack_.push_back(c);
  }
}

void LinePrices::rebuild_potentials() {
  stack_.assign(1, 0);
  potential_[0] = 0;
  while (!stack_.empty()) {
    const std::int32_t node = stack_.back();
    stack_.pop_back();
    ++spent_;
    for (std::int32_t c = first_child_[at(node)]; c >= 0; c = next_[at(c)]) {
      const std::int32_t arc = parent_arc_[at(c)];
      const double cost = cost_[at(arc)];
      potential_[at(c)] = potential_[at(node)] + (tail_[at(arc)] == node ? cost : -cost);
      stack_.push_back(c);
    }
  }
}

// Sends flow around the cycle that `entering` closes with the tree. The leaving arc is the last
// blocking one along the cycle from its apex, which keeps the tree strongly feasible: no cycling.
bool LinePrices::pivot(std::int32_t entering) {
  const bool forward = flow_[at(entering)] == 0;
  const std::int32_t from = forward ? tail_[at(entering)] : head_[at(entering)];
  const std::int32_t to = forward ? head_[at(entering)] : tail_[at(entering)];
  std::int32_t u = from, v = to;
  while (u != v) {
    ++spent_;
    if (depth_[at(u)] >= depth_[at(v)]) {
      u = parent_[at(u)];
    } else {
      v = parent_[at(v)];
    }
  }
  const std::int32_t apex = u;
  std::int64_t most = capacity_[at(entering)];
  std::int32_t leaving = -1;
  bool on_from_side = false;
  // Flow runs apex -> ... -> from -> to -> ... -> apex.
  for (std::int32_t node = from; node != apex; node = parent_[at(node)]) {
    const std::int32_t arc = parent_arc_[at(node)];
    const bool along = head_[at(arc)] == node;
    const std::int64_t left =
        along
            ? (capacity_[at(arc)] >= kUnbounded ? kUnbounded : capacity_[at(arc)] - flow_[at(arc)])
            : flow_[at(arc)];
    if (left < most) {
      most = left;
      leaving = node;
      on_from_side = true;
    }
  }
  for (std::int32_t node = to; node != apex; node = parent_[at(node)]) {
    const std::int32_t arc = parent_arc_[at(node)];
    const bool along = tail_[at(arc)] == node;
    const std::int64_t left =
        along
            ? (capacity_[at(arc)] >= kUnbounded ? kUnbounded : capacity_[at(arc)] - flow_[at(arc)])
            : flow_[at(arc)];
    if (left <= most) {
      most = left;
      leaving = node;
      on_from_side = false;
    }
  }
  if (most > 0) {
    flow_[at(entering)] += forward ? most : -most;
    for (std::int32_t node = from; node != apex; node = parent_[at(node)]) {
      const std::int32_t arc = parent_arc_[at(node)];
      flow_[at(arc)] += head_[at(arc)] == node ? most : -most;
    }
    for (std::int32_t node = to; node != apex; node = parent_[at(node)]) {
      const std::int32_t arc = parent_arc_[at(node)];
      flow_[at(arc)] += tail_[at(arc)] == node ? most : -most;
    }
  }
  if (leaving < 0) return most > 0;  // the arc went from one of its ends to the other

  // The part below the leaving arc hangs from the entering one now.
  const double reduced = reduced_cost(entering);
  const std::int32_t inner = on_from_side ? from : to, outer = on_from_side ? to : from;
  in_tree_[at(parent_arc_[at(leaving)])] = 0;
  in_tree_[at(entering)] = 1;
  std::int32_t node = inner, new_parent = outer, new_arc = entering;
  while (true) {
    const std::int32_t old_parent = parent_[at(node)], old_arc = parent_arc_[at(node)];
    unlink(node);
    link(node, new_parent, new_arc);
    if (node == leaving) break;
    new_parent = node;
    new_arc = old_arc;
    node = old_parent;
  }
  // The entering arc's reduced cost becomes zero.
  relabel(inner, head_[at(entering)] == inner ? reduced : -reduced);
  return true;
}

bool LinePrices::solve(std::int64_t steps) {
  rebuild_potentials();
  const auto arcs = static_cast<std::int32_t>(cost_.size());
  double scale = 0;
  for (const double c : cost_) scale = std::max(scale, std::abs(c));
  const double tolerance = scale * 1e-11;
  const std::int32_t block =
      std::max<std::int32_t>(32, static_cast<std::int32_t>(std::sqrt(static_cast<double>(arcs))));
  const std::int64_t stop = spent_ + steps;
  std::int32_t scanned = 0;
  while (scanned < arcs) {
    if (spent_ > stop) return false;
    std::int32_t best = -1;
    double worst = tolerance;
    for (std::int32_t k = 0; k < block && scanned < arcs; ++k, ++scanned) {
      if (++cursor_ >= arcs) cursor_ = 0;
      if (in_tree_[at(cursor_)] || capacity_[at(cursor_)] == 0) continue;
      double violation = reduced_cost(cursor_);
      if (flow_[at(cursor_)] == 0) violation = -violation;
      if (violation > worst) {
        worst = violation;
        best = cursor_;
      }
    }
    spent_ += block;
    if (best < 0) continue;
    scanned = 0;
    if (!pivot(best)) return false;
  }
  return true;
}

std::vector<double> LinePrices::prices() const {
  std::vector<double> prices(at(time_steps_));
  for (std::int32_t t = 0; t < time_steps_; ++t) {
    prices[at(t)] = std::max(0.0, reduced_cost(t));
  }
  return prices;
}

}  // namespace plimsoll::planner
