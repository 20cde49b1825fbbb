// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/bound/bound_branch.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "runtime/base/index.h"

// Branch and bound on whole intervals.
//
// The bound at the best prices equals that of a relaxation in which intervals may be kept in part.
// Example: room for 150 bytes at one time step; A has 100 bytes and takes 3 s to recompute, B 100
// bytes and 5 s. One of them must go: 3 s. The relaxation evicts half of A: 1.5 s. Deciding one
// interval at a time closes this:
//   A evicted:               3 s, and B is kept in the 150 bytes
//   A kept:                  50 bytes left for B: half of B evicted, 2.5 s
//   A kept, B evicted:       5 s
//   A kept, B kept:          no prices are too high: infinite, nothing fits
// Every schedule is in one of the leaves, so the least of their bounds holds for all: 3 s. The
// order is best first (the open node with the least bound is the one that holds the result down),
// and whenever the search stops, the least open bound is a proof.

namespace plimsoll::planner {
namespace {

using Fate = BoundPricing::Fate;

struct Node {
  BoundProof proof;
  std::vector<std::pair<std::int32_t, Fate>> fates;  // of stretches
  std::int32_t branch = -1;                          // the stretch to decide next; -1: none
  bool operator<(const Node& other) const { return proof.value > other.proof.value; }
};

class Brancher {
 public:
  Brancher(BoundPricing& pricing, LinePrices& line, std::span<const std::size_t> interval_of,
           const BoundModel& model)
      : pricing_(pricing), line_(line), interval_of_(interval_of), model_(model) {}

  double run(const BoundProof& root, int nodes, std::int64_t steps) {
    const std::int64_t stop = spent() + steps;
    std::priority_queue<Node> open;
    Node first{root, {}, -1};
    work_out(first, stop);
    open.push(std::move(first));
    for (int node = 0; node < nodes && spent() < stop; ++node) {
      if (open.top().branch < 0) break;
      const Node parent = open.top();
      open.pop();
      for (const Fate fate : {Fate::kept, Fate::evicted}) {
        Node child{parent.proof, parent.fates, -1};
        child.fates.emplace_back(parent.branch, fate);
        work_out(child, stop);
        if (child.proof.value < kInfinite) open.push(std::move(child));
      }
      if (open.empty()) return kInfinite;
    }
    return open.top().proof.value;
  }

 private:
  std::int64_t spent() const { return pricing_.steps_spent() + line_.steps_spent(); }
  std::size_t interval(std::int32_t stretch) const { return interval_of_[at(stretch)]; }

  // The parent's proof holds for the child; its prices prove more there, and better ones more yet.
  void work_out(Node& node, std::int64_t stop) {
    constexpr int kRounds = 3;
    for (const auto& [stretch, fate] : node.fates) pricing_.set_fate(interval(stretch), fate);
    pricing_.set_fractions(node.proof.fractions);
    std::vector<double> prices = node.proof.prices;
    for (int round = 0;; ++round) {
      const double value = pricing_.evaluate(prices);
      if (value > node.proof.value) node.proof = {value, prices, pricing_.fractions()};
      if (round == kRounds || spent() >= stop) break;
      if (round > 0) {
        pricing_.share_again(0.3);
        pricing_.evaluate(prices);
      }
      set_seconds(node);
      line_.solve(stop - spent());
      prices = line_.prices();
    }
    node.branch = undecided(node);
    for (const auto& [stretch, fate] : node.fates) pricing_.set_fate(interval(stretch), Fate::open);
  }

  // The linear program has no fates of its own: an interval that is kept is made so dear to evict
  // that it never is, one that is evicted saves nothing by being kept.
  void set_seconds(const Node& node) {
    double sum = 0;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(interval_of_.size()); ++i) {
      const double drop = pricing_.drop(interval(i));
      if (drop == kInfinite) continue;
      line_.set_seconds(i, drop);
      sum = std::max(sum, drop);
    }
    for (const auto& [stretch, fate] : node.fates) {
      line_.set_seconds(stretch, fate == Fate::kept ? 20 * sum : 0);
    }
  }

  // The interval of which the linear program keeps a part, and that is worth most to decide.
  std::int32_t undecided(const Node& node) const {
    std::int32_t best = -1;
    double most = 0;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(interval_of_.size()); ++i) {
      const double drop = pricing_.drop(interval(i));
      const auto bytes = static_cast<double>(model_.intervals[interval(i)].bytes);
      const double part = static_cast<double>(line_.kept(i)) / bytes;
      if (drop == kInfinite || part <= 0 || part >= 1) continue;
      const double worth = drop * std::min(part, 1 - part);
      if (worth <= most || decided(node, i)) continue;
      most = worth;
      best = i;
    }
    return best;
  }

  static bool decided(const Node& node, std::int32_t stretch) {
    return std::any_of(node.fates.begin(), node.fates.end(),
                       [&](const auto& f) { return f.first == stretch; });
  }

  BoundPricing& pricing_;
  LinePrices& line_;
  std::span<const std::size_t> interval_of_;
  const BoundModel& model_;
};

}  // namespace

double branch_on_intervals(BoundPricing& pricing, LinePrices& line,
                           std::span<const std::size_t> interval_of, const BoundModel& model,
                           const BoundProof& root, int nodes, std::int64_t steps) {
  return Brancher(pricing, line, interval_of, model).run(root, nodes, steps);
}

}  // namespace plimsoll::planner
