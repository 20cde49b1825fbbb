// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remat/improve.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/base/max_tree.h"

namespace plimsoll::planner {
namespace {

// The schedule as linked lists, one per arena value, of its makings and reads in order. Taking an
// execution out relinks them; putting it back in reverse order restores them.
//
// Keeping back. A walk decides without seeing what its later decisions make unnecessary, so that
// its schedule may recompute what would have fitted after all.
//
// Example: value v, 10 bytes, is made at position 2, read at 3, made again at 7 (in 4 s) and read
// at 8. If the profile leaves 10 bytes at positions 4..6, the execution at 7 goes: the copy of 2 is
// read at 8. In the lists that is: make 2, read 3, make 7, read 8 loses its third node, the bytes
// of v are added to the profile at 4..6, and whatever the execution at 7 alone had read is read
// less often, so that its own recomputation may go, too (cascade).
//
// Candidates are taken in order of their price: seconds won per byte and position that keeping
// costs, dearest first. A candidate after which the peak is too high is put back by undoing the
// same steps in reverse. Every try is a handful of range additions to the profile tree.
class Editor {
 public:
  Editor(const Problem& problem, Schedule& schedule, std::int64_t arena_limit, double least_seconds)
      : problem_(problem),
        schedule_(schedule),
        limit_(arena_limit),
        least_seconds_(least_seconds),
        seconds_(total_seconds(problem, schedule)) {
    build();
    // Very long schedules come from limits near the floor: there the search is cut off.
    work_left_ = 20 * static_cast<std::int64_t>(schedule.size()) + 20'000;
  }

  void run() {
    for (int pass = 0; pass < 2; ++pass) {
      std::vector<std::pair<double, std::int32_t>> order;
      IdVector<OpId, char> seen(problem_.ops.size(), 0);
      for (std::int32_t t = 0; t < size(); ++t) {
        const OpId op = schedule_[at(t)];
        if (op < 0) continue;
        if (seen[op]) order.emplace_back(-price(t), t);
        seen[op] = 1;
      }
      std::sort(order.begin(), order.end());
      bool any = false;
      for (const auto& [negated, t] : order) {
        if (work_left_ <= 0) break;
        if (schedule_[at(t)] >= 0 && try_remove(t)) any = true;
      }
      if (!any) break;
    }
    std::erase(schedule_, OpId());
  }

 private:
  struct Node {
    std::int32_t position;
    std::int32_t previous = -1, next = -1;
    ValueId value;
    bool made;
  };

  std::int32_t size() const { return static_cast<std::int32_t>(schedule_.size()); }
  Node& node(std::int32_t i) { return nodes_[at(i)]; }
  std::int64_t bytes(ValueId v) const { return problem_.values[v].bytes; }

  void build() {
    IdVector<ValueId, std::int32_t> last(problem_.values.size(), -1);
    first_node_.reserve(schedule_.size() + 1);
    const auto add = [&](ValueId v, std::int32_t t, bool made) {
      const auto id = static_cast<std::int32_t>(nodes_.size());
      nodes_.push_back({t, last[v], -1, v, made});
      if (last[v] >= 0) node(last[v]).next = id;
      last[v] = id;
    };
    for (std::int32_t t = 0; t < size(); ++t) {
      first_node_.push_back(static_cast<std::int32_t>(nodes_.size()));
      for (const ValueId v : problem_.reads[schedule_[at(t)]]) {
        if (problem_.in_arena(v)) add(v, t, false);
      }
      for (const ValueId v : problem_.outputs[schedule_[at(t)]]) {
        if (v >= 0 && problem_.in_arena(v)) add(v, t, true);
      }
    }
    first_node_.push_back(static_cast<std::int32_t>(nodes_.size()));
    for (const ValueId v : last.ids()) {
      // One more position stands for the end, where what lives out is read.
      if (problem_.values[v].live_out && last[v] >= 0) {
        add(v, size(), false);
      }
    }
    std::vector<std::int64_t> delta(schedule_.size() + 2, 0);
    for (const Node& n : nodes_) {
      if (!n.made) continue;
      std::int32_t end = n.position;
      for (std::int32_t i = n.next; i >= 0 && !node(i).made; i = node(i).next) {
        end = node(i).position;
      }
      delta[at(n.position)] += bytes(n.value);
      delta[at(end) + 1] -= bytes(n.value);
    }
    saved_.assign(schedule_.size(), 0);
    std::vector<std::int64_t> profile(schedule_.size() + 1, 0);
    std::int64_t live = 0;
    for (std::int32_t t = 0; t < size(); ++t) {
      live += delta[at(t)];
      saved_[at(t)] = in_place_bytes(t);
      profile[at(t)] = live + problem_.ops[schedule_[at(t)]].workspace - saved_[at(t)];
    }
    tree_.build(profile);
  }

  bool dies_at(const Node& read) { return read.next < 0 || node(read.next).made; }

  std::int64_t in_place_bytes(std::int32_t t) {
    const OpId op = schedule_[at(t)];
    if (op < 0 || problem_.reuse[op].empty()) return 0;
    const auto reads = problem_.reads[op];
    dies_.assign(reads.size(), 0);
    std::int32_t id = first_node_[at(t)];
    for (std::size_t k = 0; k < reads.size(); ++k) {
      if (!problem_.in_arena(reads[k])) continue;
      dies_[k] = dies_at(node(id++));
    }
    match_in_place(problem_, op, dies_, taken_);
    std::int64_t sum = 0;
    for (const Reuse& r : taken_) sum += bytes(r.output);
    return sum;
  }

  // Seconds per byte and position that keeping instead would cost.
  double price(std::int32_t t) {
    const OpId op = schedule_[at(t)];
    double area = 1;
    for (std::int32_t i = first_node_[at(t)]; i < first_node_[at(t) + 1]; ++i) {
      const Node& n = node(i);
      if (!n.made || n.previous < 0) continue;
      area += static_cast<double>(bytes(n.value)) * (t - node(n.previous).position);
    }
    return problem_.ops[op].seconds / area;
  }

  void add(std::int32_t from, std::int32_t to, std::int64_t amount) {
    if (from > to || from >= size()) return;
    to = std::min(to, size() - 1);
    --work_left_;
    tree_.change(from, to, amount);
    undo_ranges_.push_back({from, to, amount});
  }

  void refresh_in_place(std::int32_t t) {
    if (t >= size() || schedule_[at(t)] < 0) return;
    const std::int64_t now = in_place_bytes(t);
    if (now == saved_[at(t)]) return;
    undo_saved_.emplace_back(t, saved_[at(t)]);
    add(t, t, saved_[at(t)] - now);
    saved_[at(t)] = now;
  }

  void unlink(std::int32_t id) {
    const Node& n = node(id);
    if (n.previous >= 0) node(n.previous).next = n.next;
    if (n.next >= 0) node(n.next).previous = n.previous;
  }

  void relink(std::int32_t id) {
    const Node& n = node(id);
    if (n.previous >= 0) node(n.previous).next = id;
    if (n.next >= 0) node(n.next).previous = id;
  }

  // Every value that the execution at `t` makes must have an earlier making to fall back on, and
  // views one of the same copy.
  bool removable(std::int32_t t) {
    for (std::int32_t i = first_node_[at(t)]; i < first_node_[at(t) + 1]; ++i) {
      const Node& n = node(i);
      if (!n.made) continue;
      if (n.previous < 0) return false;
      const ValueId of = problem_.view_of.empty() ? ValueId() : problem_.view_of[n.value];
      if (of >= 0 && !dies_at(n) && made_before(t, of) > made_before(t, n.value)) return false;
    }
    return true;
  }

  // The last position before `t` that makes `v`, which the execution at `t` reads or makes.
  std::int32_t made_before(std::int32_t t, ValueId v) {
    std::int32_t i = first_node_[at(t)];
    while (i < first_node_[at(t) + 1] && node(i).value != v) ++i;
    if (i == first_node_[at(t) + 1]) return -1;
    for (i = node(i).previous; i >= 0 && !node(i).made;) i = node(i).previous;
    return i < 0 ? -1 : node(i).position;
  }

  struct Removal {
    std::int32_t position;
    OpId op;
  };

  void remove(std::int32_t t) {
    const OpId op = schedule_[at(t)];
    add(t, t, saved_[at(t)] - problem_.ops[op].workspace);
    undo_saved_.emplace_back(t, saved_[at(t)]);
    saved_[at(t)] = 0;
    removals_.push_back({t, op});
    schedule_[at(t)] = OpId();
    for (std::int32_t i = first_node_[at(t)]; i < first_node_[at(t) + 1]; ++i) {
      const Node n = node(i);
      unlink(i);
      const std::int32_t before = n.previous < 0 ? -1 : node(n.previous).position;
      const bool read_later = n.next >= 0 && !node(n.next).made;
      if (n.made) {
        if (read_later) {
          add(before + 1, t - 1, bytes(n.value));
          refresh_in_place(before);
        } else {
          add(t, t, -bytes(n.value));
        }
      } else if (!read_later) {
        add(before + 1, t, -bytes(n.value));
        refresh_in_place(before);
        unread_.push_back(n.previous);
      }
    }
  }

  // Executions again whose results are all unread now go too.
  void cascade() {
    while (!unread_.empty()) {
      const std::int32_t id = unread_.back();
      unread_.pop_back();
      if (id < 0 || !node(id).made) continue;
      const std::int32_t t = node(id).position;
      if (schedule_[at(t)] < 0 || !removable(t)) continue;
      bool read = false;
      for (std::int32_t i = first_node_[at(t)]; i < first_node_[at(t) + 1]; ++i) {
        if (node(i).made && !dies_at(node(i))) read = true;
      }
      if (!read) remove(t);
    }
  }

  bool try_remove(std::int32_t t) {
    if (!removable(t)) return false;
    undo_ranges_.clear();
    undo_saved_.clear();
    removals_.clear();
    unread_.clear();
    remove(t);
    cascade();
    if (tree_.max() <= limit_ && slow_enough()) return true;
    for (auto it = removals_.rbegin(); it != removals_.rend(); ++it) {
      for (std::int32_t i = first_node_[at(it->position) + 1];
           i-- > first_node_[at(it->position)];) {
        relink(i);
      }
      schedule_[at(it->position)] = it->op;
    }
    for (auto it = undo_saved_.rbegin(); it != undo_saved_.rend(); ++it) {
      saved_[at(it->first)] = it->second;
    }
    for (const Range& r : undo_ranges_) tree_.change(r.from, r.to, -r.amount);
    return false;
  }

  // The running sum serves unless it is too near to tell.
  bool slow_enough() {
    double left = seconds_;
    for (const Removal& r : removals_) left -= problem_.ops[r.op].seconds;
    if (std::abs(left - least_seconds_) < 1e-9 * seconds_) {
      Schedule kept = schedule_;
      std::erase(kept, OpId());
      if (total_seconds(problem_, kept) < least_seconds_) return false;
    } else if (left < least_seconds_) {
      return false;
    }
    seconds_ = left;
    return true;
  }

  struct Range {
    std::int32_t from, to;
    std::int64_t amount;
  };

  const Problem& problem_;
  Schedule& schedule_;
  const std::int64_t limit_;
  const double least_seconds_;
  double seconds_;
  std::vector<Node> nodes_;
  std::vector<std::int32_t> first_node_;
  std::vector<std::int64_t> saved_;
  MaxTree<Adding> tree_;
  std::int64_t work_left_ = 0;
  std::vector<char> dies_;
  std::vector<Reuse> taken_;
  std::vector<Range> undo_ranges_;
  std::vector<std::pair<std::int32_t, std::int64_t>> undo_saved_;
  std::vector<Removal> removals_;
  std::vector<std::int32_t> unread_;
};

}  // namespace

void drop_unread(const Problem& problem, Schedule& schedule) {
  IdVector<ValueId, char> wanted(problem.values.size(), 0);
  IdVector<OpId, std::int32_t> left(problem.ops.size(), 0);
  for (const OpId op : schedule) ++left[op];
  for (const ValueId v : wanted.ids()) wanted[v] = problem.values[v].live_out;
  for (std::size_t t = schedule.size(); t-- > 0;) {
    const OpId op = schedule[t];
    bool needed = false;
    for (const ValueId v : problem.outputs[op]) needed = needed || (v >= 0 && wanted[v]);
    // The last making left stays: it may have results with a fixed home or an effect.
    if (!needed && left[op] > 1) {
      --left[op];
      schedule[t] = OpId();
      continue;
    }
    for (const ValueId v : problem.outputs[op]) {
      if (v >= 0) wanted[v] = 0;
    }
    for (const ValueId v : problem.reads[op]) wanted[v] = 1;
  }
  std::erase(schedule, OpId());
}

void keep_where_it_fits(const Problem& problem, Schedule& schedule, std::int64_t arena_limit,
                        double least_seconds) {
  Editor(problem, schedule, arena_limit, least_seconds).run();
}

}  // namespace plimsoll::planner
