// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/order/peak_search.h"

#include <algorithm>
#include <limits>

#include "runtime/base/max_tree.h"

// Lowering the peak of an order by moves around it.
//
// At the highest position p, every value that lives across p adds its bytes. A value stops doing so
// in two ways. Either it dies before p: all of its readers behind p, and what these need in turn,
// are moved before p (hoist). Or it is made behind p: its producer, and everything before p that
// depends on it, is moved behind p (sink). The group of ops that has to go along is found by
// following edges; a move with too many ops, or one that would need the op at p itself to move, is
// not tried.
//
// Example: order m1 (makes x, 10), m2 (makes y, 10), p (needs 50, reads neither), r1 (reads x,
// makes 1), r2 (reads y, makes 1). At p there are 10 + 10 + 50. Hoisting r1 before p: x dies there,
// and 1 + 10 + 50 are left. Hoisting r2 as well: 1 + 1 + 50. Had r1 needed p's result, hoisting
// would have been impossible, and sinking m1 behind p (if nothing before p reads x) would have done
// the same.
//
// A move changes only the positions between the group's old and new places, so that is all that is
// measured again. It is taken if the highest place of that stretch falls, or, at an equal height,
// the sum: plateaus are left in the direction of less. Where a group alone is not better, it takes
// along what can follow it for free (follow_readers, follow_producers), as two ops that only help
// together would otherwise never move.

namespace plimsoll::planner {
namespace {

constexpr std::int32_t kNowhere = std::numeric_limits<std::int32_t>::max();
// Ops that move together.
constexpr std::size_t kMostMoved = 64;
// Positions to either side of the peak where values that live across it are looked for.
constexpr std::int32_t kReach = 512;
// Values tried per peak.
constexpr std::size_t kMostTried = 24;

class Search {
 public:
  Search(const OrderGraph& graph, std::vector<OpId> order, std::int64_t effort)
      : graph_(graph), order_(std::move(order)), effort_(effort) {
    const std::size_t n = order_.size();
    position_.resize(n);
    for (std::size_t t = 0; t < n; ++t) position_[order_[t]] = static_cast<std::int32_t>(t);
    last_.assign(graph.cost.size(), OpId());
    for (const ValueId v : graph.cost.ids()) find_last(v);
    profile_.assign(n, 0);
    live_.assign(n + 1, 0);
    group_stamp_.assign(n, 0);
    value_stamp_.assign(graph.cost.size(), 0);
    if (n > 0) measure(0, static_cast<std::int32_t>(n) - 1);
    highest_.build(profile_);
  }

  std::vector<OpId> run() {
    while (effort_ > 0 && !order_.empty() && lower(highest_.argmax())) {
    }
    return std::move(order_);
  }

 private:
  OpId producer(ValueId v) const { return graph_.graph.values[v].producer; }
  std::int32_t born(ValueId v) const { return position_[producer(v)]; }

  void find_last(ValueId v) {
    std::int32_t last = -1;
    OpId reader;
    for (const OpId r : graph_.readers[v]) {
      if (position_[r] > last) {
        last = position_[r];
        reader = r;
      }
    }
    last_[v] = reader;
  }

  // Bytes at first .. last from what lives before `first`.
  void measure(std::int32_t first, std::int32_t last) {
    std::int64_t live = live_[at(first)];
    for (std::int32_t t = first; t <= last; ++t) {
      const OpId op = order_[at(t)];
      std::int64_t dead = 0;
      for (const ValueId v : graph_.makes[op]) {
        live += graph_.cost[v];
        if (last_[v] < 0) dead += graph_.cost[v];
      }
      for (const ValueId v : graph_.reads[op]) {
        if (last_[v] == op) dead += graph_.cost[v];
      }
      const std::int64_t reused =
          dead == 0 ? 0 : reused_bytes(graph_, op, [&](ValueId v) { return last_[v] == op; });
      profile_[at(t)] = live + graph_.workspace[op] - reused;
      live -= dead;
      live_[at(t) + 1] = live;
    }
    effort_ -= last - first + 1;
  }

  // The values that live across position p, largest first.
  std::vector<ValueId> across(std::int32_t p) {
    std::vector<ValueId> found;
    const auto consider = [&](ValueId v) {
      if (value_stamp_[v] == value_round_) return;
      value_stamp_[v] = value_round_;
      if (born(v) <= p && last_[v] >= 0 && position_[last_[v]] >= p) found.push_back(v);
    };
    ++value_round_;
    const std::int32_t end = std::min(p + kReach, static_cast<std::int32_t>(order_.size()) - 1);
    for (std::int32_t t = std::max(0, p - kReach); t <= end; ++t) {
      if (t <= p) {
        for (const ValueId v : graph_.makes[order_[at(t)]]) consider(v);
      }
      if (t >= p) {
        for (const ValueId v : graph_.reads[order_[at(t)]]) consider(v);
      }
    }
    effort_ -= end - p + kReach;
    std::stable_sort(found.begin(), found.end(), [&](ValueId a, ValueId b) {
      return graph_.cost[a] != graph_.cost[b] ? graph_.cost[a] > graph_.cost[b] : a < b;
    });
    if (found.size() > kMostTried) found.resize(kMostTried);
    return found;
  }

  bool in_group(OpId op) const { return group_stamp_[op] == group_round_; }
  bool join(OpId op) {
    if (in_group(op)) return true;
    if (group_.size() == kMostMoved) return false;
    group_stamp_[op] = group_round_;
    group_.push_back(op);
    return true;
  }
  void start_group() {
    ++group_round_;
    group_.clear();
  }
  void sort_group() {
    std::sort(group_.begin(), group_.end(),
              [&](OpId a, OpId b) { return position_[a] < position_[b]; });
  }

  // Everything at or behind p that must run before the last of `v`'s readers can.
  bool gather_readers(ValueId v, std::int32_t p) {
    start_group();
    for (const OpId r : graph_.readers[v]) {
      if (position_[r] > p && !join(r)) return false;
    }
    for (std::size_t i = 0; i < group_.size(); ++i) {
      for (const OpId b : graph_.before[group_[i]]) {
        if (position_[b] == p) return false;
        if (position_[b] > p && !join(b)) return false;
      }
      effort_ -= 1;
    }
    return !group_.empty();
  }

  // What reads the group's results and has all it needs comes along.
  void follow_readers(std::int32_t p) {
    for (std::size_t i = 0; i < group_.size(); ++i) {
      for (const OpId next : graph_.behind[group_[i]]) {
        if (in_group(next) || position_[next] <= p) continue;
        bool can = true;
        for (const OpId b : graph_.before[next]) {
          can = can && (position_[b] < p || in_group(b));
        }
        effort_ -= 1;
        if (can && !join(next)) return;
      }
    }
  }

  // Everything before p that cannot run without `v`.
  bool gather_producers(ValueId v, std::int32_t p) {
    start_group();
    join(producer(v));
    for (std::size_t i = 0; i < group_.size(); ++i) {
      for (const OpId f : graph_.behind[group_[i]]) {
        if (position_[f] == p) return false;
        if (position_[f] < p && !join(f)) return false;
      }
      effort_ -= 1;
    }
    return position_[group_[0]] != p;
  }

  // What only the group reads comes along.
  void follow_producers(std::int32_t p) {
    for (std::size_t i = 0; i < group_.size(); ++i) {
      for (const OpId b : graph_.before[group_[i]]) {
        if (in_group(b) || position_[b] >= p) continue;
        bool can = true;
        for (const OpId f : graph_.behind[b]) {
          can = can && (position_[f] > p || in_group(f));
        }
        effort_ -= 1;
        if (can && !join(b)) return;
      }
    }
  }

  // Moves the group, in its order, so that it begins at `to` (hoisted) or ends there; keeps that
  // when it is better. Preconditions: all of the group lies behind (before) `to`, sorted.
  bool try_move(std::int32_t to, bool hoist) {
    const std::int32_t first = hoist ? to : position_[group_.front()];
    const std::int32_t last = hoist ? position_[group_.back()] : to;
    if (first >= last || effort_ <= 0) return false;
    const auto begin = order_.begin() + first, end = order_.begin() + last + 1;
    const std::vector<OpId> old_order(begin, end);
    const std::vector<std::int64_t> old_profile(profile_.begin() + first,
                                                profile_.begin() + last + 1);
    const std::vector<std::int64_t> old_live(live_.begin() + first, live_.begin() + last + 2);
    std::stable_partition(begin, end, [&](OpId op) { return in_group(op) == hoist; });
    place(first, last);
    touched_.clear();
    for (const OpId op : group_) {
      for (const ValueId v : graph_.reads[op]) {
        touched_.emplace_back(v, last_[v]);
        find_last(v);
        effort_ -= static_cast<std::int64_t>(graph_.readers[v].size()) / 8;
      }
    }
    measure(first, last);
    std::int64_t most_before = 0, most_after = 0;
    double sum_before = 0, sum_after = 0;
    for (std::int32_t t = first; t <= last; ++t) {
      const std::int64_t before = old_profile[at(t - first)], after = profile_[at(t)];
      most_before = std::max(most_before, before);
      most_after = std::max(most_after, after);
      sum_before += static_cast<double>(before);
      sum_after += static_cast<double>(after);
    }
    if (most_after < most_before || (most_after == most_before && sum_after < sum_before)) {
      highest_.set(first, last, profile_);
      return true;
    }
    std::copy(old_order.begin(), old_order.end(), order_.begin() + first);
    std::copy(old_profile.begin(), old_profile.end(), profile_.begin() + first);
    std::copy(old_live.begin(), old_live.end(), live_.begin() + first);
    place(first, last);
    for (auto it = touched_.rbegin(); it != touched_.rend(); ++it) last_[it->first] = it->second;
    return false;
  }

  void place(std::int32_t first, std::int32_t last) {
    for (std::int32_t t = first; t <= last; ++t) position_[order_[at(t)]] = t;
  }

  // The earliest place for the group, at most p; the latest, at least p.
  std::int32_t earliest() const {
    std::int32_t place = 0;
    for (const OpId op : group_) {
      for (const OpId b : graph_.before[op]) {
        if (!in_group(b)) place = std::max(place, position_[b] + 1);
      }
    }
    return place;
  }
  std::int32_t latest() const {
    std::int32_t place = static_cast<std::int32_t>(order_.size()) - 1;
    for (const OpId op : group_) {
      for (const OpId f : graph_.behind[op]) {
        if (!in_group(f)) place = std::min(place, position_[f] - 1);
      }
    }
    return place;
  }

  bool hoist(ValueId v, std::int32_t p) {
    if (!gather_readers(v, p)) return false;
    for (const bool follow : {false, true}) {
      if (follow) {
        const std::size_t before = group_.size();
        follow_readers(p);
        if (group_.size() == before) return false;
      }
      sort_group();
      const std::int32_t place = earliest();
      if (place > p) return false;
      if (try_move(p, true) || (place < p && try_move(place, true))) return true;
    }
    return false;
  }

  bool sink(ValueId v, std::int32_t p) {
    if (!gather_producers(v, p)) return false;
    for (const bool follow : {false, true}) {
      if (follow) {
        const std::size_t before = group_.size();
        follow_producers(p);
        if (group_.size() == before) return false;
      }
      sort_group();
      const std::int32_t place = latest();
      if (place < p) return false;
      if (try_move(p, false) || (place > p && try_move(place, false))) return true;
    }
    return false;
  }

  // The op at the peak itself, as far as it goes either way.
  bool shift(std::int32_t p) {
    start_group();
    join(order_[at(p)]);
    const std::int32_t early = earliest(), late = latest();
    return (early < p && try_move(early, true)) || (late > p && try_move(late, false));
  }

  bool lower(std::int32_t p) {
    const std::int64_t before = highest_.max();
    for (const ValueId v : across(p)) {
      if (effort_ <= 0) return false;
      if (hoist(v, p) || sink(v, p)) return true;
    }
    return shift(p) && highest_.max() <= before;
  }

  const OrderGraph& graph_;
  std::vector<OpId> order_;
  std::int64_t effort_;
  IdVector<OpId, std::int32_t> position_;
  IdVector<ValueId, OpId> last_;              // per value, its last reader; -1: none
  std::vector<std::int64_t> profile_, live_;  // live_[t]: before position t
  MaxTree<Adding> highest_;
  std::vector<OpId> group_;
  IdVector<OpId, std::uint32_t> group_stamp_;
  IdVector<ValueId, std::uint32_t> value_stamp_;
  std::uint32_t group_round_ = 0, value_round_ = 0;
  std::vector<std::pair<ValueId, OpId>> touched_;
};

}  // namespace

std::vector<OpId> lower_peak(const OrderGraph& graph, std::vector<OpId> order,
                             std::int64_t effort) {
  return Search(graph, std::move(order), effort).run();
}

}  // namespace plimsoll::planner
