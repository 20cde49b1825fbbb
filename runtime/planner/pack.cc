// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/pack.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace plimsoll::planner {
namespace {

// Placing all buffers once looks at every pair of them that lives together. So many pairs are
// looked at per unit of effort; where one placement alone would take more, only the sweep is tried.
constexpr std::int64_t kPairsPerEffort = 6'000'000;

class Packer {
 public:
  Packer(std::span<const Lifetime> lifetimes, std::int64_t alignment) : life_(lifetimes) {
    size_.reserve(life_.size());
    for (const Lifetime& l : life_) {
      const bool lives = l.size > 0 && l.lower < l.upper;
      size_.push_back(lives ? (l.size + alignment - 1) / alignment * alignment : 0);
      if (lives) items_.push_back(static_cast<std::int32_t>(size_.size()) - 1);
    }
    best_.offsets.assign(life_.size(), 0);
    best_.height = std::numeric_limits<std::int64_t>::max();
    offsets_.assign(life_.size(), 0);
    find_load();
  }

  Packing run(std::int64_t target, int effort) {
    goal_ = std::max(best_.load, target);
    pairs_left_ = kPairsPerEffort * effort;
    if (items_.empty()) {
      best_.height = 0;
      return best_;
    }
    sweep(true);
    if (!done()) sweep(false);
    if (!done() && find_neighbours()) {
      for (int order = 0; order < 5 && !done() && pairs_left_ > 0; ++order) place_in_order(order);
      if (!done()) search(16 * effort);
    }
    return best_;
  }

 private:
  std::int64_t size(std::int32_t i) const { return size_[static_cast<std::size_t>(i)]; }
  const Lifetime& life(std::int32_t i) const { return life_[static_cast<std::size_t>(i)]; }
  bool done() const { return best_.height <= goal_; }

  struct Event {
    std::int64_t time;
    bool start;  // ends come first
    std::int32_t item;
  };

  void find_load() {
    events_.reserve(items_.size() * 2);
    for (const std::int32_t i : items_) {
      events_.push_back({life(i).lower, true, i});
      events_.push_back({life(i).upper, false, i});
    }
    std::sort(events_.begin(), events_.end(), [&](const Event& a, const Event& b) {
      if (a.time != b.time) return a.time < b.time;
      if (a.start != b.start) return b.start;
      return std::tuple(-size(a.item), a.item) < std::tuple(-size(b.item), b.item);
    });
    std::int64_t live = 0;
    for (const Event& e : events_) {
      live += e.start ? size(e.item) : -size(e.item);
      best_.load = std::max(best_.load, live);
    }
  }

  void keep_if_better(std::int64_t height) {
    if (height >= best_.height) return;
    best_.height = height;
    best_.offsets = offsets_;
  }

  // In time order, as an allocator would: the smallest hole that fits, else the lowest.
  void sweep(bool best_fit) {
    std::map<std::int64_t, std::int64_t> holes{{0, std::numeric_limits<std::int64_t>::max() / 2}};
    std::set<std::pair<std::int64_t, std::int64_t>> by_size;  // size, offset
    by_size.emplace(holes.begin()->second, 0);
    std::int64_t height = 0;
    for (const Event& e : events_) {
      const std::int64_t bytes = size(e.item);
      std::int64_t& offset = offsets_[static_cast<std::size_t>(e.item)];
      if (e.start) {
        auto hole = holes.begin();
        if (best_fit) {
          hole = holes.find(by_size.lower_bound({bytes, 0})->second);
        } else {
          while (hole->second < bytes) ++hole;
        }
        offset = hole->first;
        const std::int64_t left = hole->second - bytes;
        by_size.erase({hole->second, hole->first});
        holes.erase(hole);
        if (left > 0) {
          holes.emplace(offset + bytes, left);
          by_size.emplace(left, offset + bytes);
        }
        height = std::max(height, offset + bytes);
      } else {
        auto next = holes.lower_bound(offset);
        std::int64_t from = offset, length = bytes;
        if (next != holes.end() && next->first == offset + bytes) {
          length += next->second;
          by_size.erase({next->second, next->first});
          next = holes.erase(next);
        }
        if (next != holes.begin()) {
          const auto before = std::prev(next);
          if (before->first + before->second == offset) {
            from = before->first;
            length += before->second;
            by_size.erase({before->second, before->first});
            holes.erase(before);
          }
        }
        holes.emplace(from, length);
        by_size.emplace(length, from);
      }
    }
    keep_if_better(height);
  }

  // Lists, for each buffer, those that live at the same time. False when there are too many.
  bool find_neighbours() {
    std::int64_t pairs = 0, alive = 0;
    for (const Event& e : events_) {
      if (e.start) pairs += alive;
      alive += e.start ? 1 : -1;
    }
    if (pairs * 2 > pairs_left_) return false;
    std::vector<std::int32_t> degree(life_.size() + 1, 0);
    std::vector<std::int32_t> active, place(life_.size(), -1);
    const auto each_pair = [&](const auto& f) {
      active.clear();
      for (const Event& e : events_) {
        auto& at = place[static_cast<std::size_t>(e.item)];
        if (e.start) {
          for (const std::int32_t other : active) f(e.item, other);
          at = static_cast<std::int32_t>(active.size());
          active.push_back(e.item);
        } else {
          active[static_cast<std::size_t>(at)] = active.back();
          place[static_cast<std::size_t>(active.back())] = at;
          active.pop_back();
        }
      }
    };
    each_pair([&](std::int32_t a, std::int32_t b) {
      ++degree[static_cast<std::size_t>(a) + 1];
      ++degree[static_cast<std::size_t>(b) + 1];
    });
    std::partial_sum(degree.begin(), degree.end(), degree.begin());
    first_neighbour_ = degree;
    neighbours_.resize(static_cast<std::size_t>(pairs * 2));
    each_pair([&](std::int32_t a, std::int32_t b) {
      neighbours_[static_cast<std::size_t>(degree[static_cast<std::size_t>(a)]++)] = b;
      neighbours_[static_cast<std::size_t>(degree[static_cast<std::size_t>(b)]++)] = a;
    });
    return true;
  }

  void place_in_order(int kind) {
    std::vector<std::int32_t> order = items_;
    const auto length = [&](std::int32_t i) { return life(i).upper - life(i).lower; };
    const auto key = [&](std::int32_t i) -> std::tuple<double, double, std::int32_t> {
      const auto bytes = static_cast<double>(size(i));
      const auto time = static_cast<double>(length(i));
      switch (kind) {
        case 0:
          return {-bytes, -time, i};
        case 1:
          return {-bytes * time, -bytes, i};
        case 2:
          return {-time, -bytes, i};
        case 3:
          return {static_cast<double>(life(i).lower), -time, i};
        default:
          return {-bytes * std::min(time, 64.0), -bytes, i};
      }
    };
    std::vector<std::tuple<double, double, std::int32_t>> keyed;
    keyed.reserve(order.size());
    for (const std::int32_t i : order) keyed.push_back(key(i));
    std::sort(keyed.begin(), keyed.end());
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = std::get<2>(keyed[k]);
    for (const bool best_fit : {false, true}) {
      const std::int64_t height = place(order, best_fit);
      if (height < best_.height) best_order_ = {order, best_fit};
      keep_if_better(height);
      if (done() || pairs_left_ <= 0) break;
    }
    if (best_order_.order.empty()) best_order_ = {order, false};
  }

  std::int64_t place(const std::vector<std::int32_t>& order, bool best_fit) {
    placed_.assign(life_.size(), 0);
    pairs_left_ -= static_cast<std::int64_t>(neighbours_.size());
    std::int64_t height = 0;
    for (const std::int32_t i : order) {
      taken_.clear();
      const auto row = static_cast<std::size_t>(i);
      for (auto k = first_neighbour_[row]; k < first_neighbour_[row + 1]; ++k) {
        const std::int32_t other = neighbours_[static_cast<std::size_t>(k)];
        if (!placed_[static_cast<std::size_t>(other)]) continue;
        const std::int64_t at = offsets_[static_cast<std::size_t>(other)];
        taken_.emplace_back(at, at + size(other));
      }
      std::sort(taken_.begin(), taken_.end());
      const std::int64_t bytes = size(i);
      std::int64_t best_gap = std::numeric_limits<std::int64_t>::max(), chosen = -1, end = 0;
      for (const auto& [from, to] : taken_) {
        const std::int64_t gap = from - end;
        if (gap >= bytes && gap < best_gap) {
          best_gap = gap;
          chosen = end;
          if (!best_fit) break;
        }
        end = std::max(end, to);
      }
      if (chosen < 0) chosen = end;
      offsets_[row] = chosen;
      placed_[row] = 1;
      height = std::max(height, chosen + bytes);
    }
    return height;
  }

  // What reaches the top is placed earlier next time, again and again.
  void search(int rounds) {
    if (best_order_.order.empty()) return;
    std::vector<std::int32_t> order = best_order_.order;
    std::int64_t height = place(order, best_order_.best_fit);
    for (int round = 0; round < rounds && !done() && pairs_left_ > 0; ++round) {
      std::vector<char> top(life_.size(), 0);
      for (const std::int32_t i : order) {
        if (offsets_[static_cast<std::size_t>(i)] + size(i) != height) continue;
        top[static_cast<std::size_t>(i)] = 1;
      }
      // Halfway to the front in even rounds, all the way in odd ones.
      std::vector<std::int32_t> next;
      next.reserve(order.size());
      if (round % 2 == 1) {
        for (const std::int32_t i : order) {
          if (top[static_cast<std::size_t>(i)]) next.push_back(i);
        }
        for (const std::int32_t i : order) {
          if (!top[static_cast<std::size_t>(i)]) next.push_back(i);
        }
      } else {
        std::vector<std::pair<std::int64_t, std::int32_t>> keyed;
        for (std::size_t k = 0; k < order.size(); ++k) {
          const auto rank = static_cast<std::int64_t>(k) * 2;
          keyed.emplace_back(top[static_cast<std::size_t>(order[k])] ? rank / 2 - 1 : rank,
                             order[k]);
        }
        std::stable_sort(keyed.begin(), keyed.end(),
                         [](const auto& a, const auto& b) { return a.first < b.first; });
        for (const auto& [rank, i] : keyed) next.push_back(i);
      }
      order = std::move(next);
      height = place(order, best_order_.best_fit);
      keep_if_better(height);
    }
  }

  std::span<const Lifetime> life_;
  std::vector<std::int64_t> size_, offsets_;
  std::vector<std::int32_t> items_;
  std::vector<Event> events_;
  std::vector<std::int32_t> first_neighbour_, neighbours_;
  std::vector<char> placed_;
  std::vector<std::pair<std::int64_t, std::int64_t>> taken_;
  struct {
    std::vector<std::int32_t> order;
    bool best_fit = false;
  } best_order_;
  Packing best_;
  std::int64_t goal_ = 0, pairs_left_ = 0;
};

}  // namespace

Packing pack(std::span<const Lifetime> lifetimes, const PackOptions& options) {
  return Packer(lifetimes, options.alignment).run(options.target, options.effort);
}

Packing pack(std::span<const Lifetime> lifetimes, std::int64_t alignment, std::int64_t target,
             int effort) {
  return Packer(lifetimes, alignment).run(target, effort);
}

}  // namespace plimsoll::planner
