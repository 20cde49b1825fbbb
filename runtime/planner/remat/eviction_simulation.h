// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/planner/problem/problem.h"
#include "runtime/planner/problem/schedule.h"

namespace plimsoll::planner {

// How a simulation picks what to evict: the lowest cost^cost_power / (bytes *
// interval^interval_power) goes, the interval being measured to the value's next use.
struct SimulationStyle {
  double cost_power = 1, interval_power = 1;
  bool weighted_interval = false;  // an interval's positions count by what bytes cost there
  bool keep_dead = false;    // values without further use stay while there is room: a recomputation
                             // may want them
  bool depth_first = false;  // what a recomputation needs is made depth first, not in order
  // What a recomputation needs is made right before it is read, again and again if need be: the
  // last resort where a whole chain does not fit.
  bool one_by_one = false;
  // Ops whose results are always evicted after their uses when memory is short (checkpointing);
  // empty: none.
  IdVector<ValueId, char> keep;  // 1 = evict last
  // Per value, what its price is multiplied by; empty: 1.
  IdVector<ValueId, double> weight;
};

// A simulation that needs more is thrashing, or takes longer to plan than it is worth.
std::size_t most_executions(const Problem& problem);

// Runs the order once under `arena_limit`, evicting values when an op does not fit and recomputing
// what it needs, with all its missing ancestors, right before it. Nothing when an op cannot run, or
// when more than `most_executions` or `most_seconds` are needed. The exact peak of the result may
// be lower than the limit.
class EvictionSimulation {
 public:
  EvictionSimulation(const Problem& problem, std::int64_t min_bytes);
  // Excess of keeping everything over the limit, summed up to each position: for weighted
  // intervals.
  void set_profile(const std::vector<std::int64_t>& keep_all_profile, std::int64_t arena_limit);
  // Instead: what a byte costs at each position (bound.h).
  void set_prices(std::span<const double> prices);
  std::optional<Schedule> run(std::int64_t arena_limit, const SimulationStyle& style,
                              std::size_t most_executions, double most_seconds);
  // How many ops of the order the last run got done.
  OpId reached() const { return now_; }

 private:
  struct Entry {
    double score;
    ValueId value;
    std::uint32_t version;
    bool operator<(const Entry& other) const {
      return score != other.score ? score > other.score : value > other.value;
    }
  };

  bool arena(ValueId v) const { return arena_[v] != 0; }
  bool there(ValueId v) const { return !arena(v) || resident_[v]; }
  OpId next_use(ValueId v);
  double recompute_seconds(ValueId v, OpId at_op);
  double score(ValueId v);
  bool evictable(ValueId v);
  OpId wanted_at(ValueId v);
  void offer(ValueId v);
  void evict(ValueId v);
  void evict(ValueId v, double seconds);
  void release(ValueId v);
  bool make_room(std::int64_t bytes);
  void undefine_views(ValueId v);
  bool evict_recomputed_views();
  bool collect(OpId op);
  bool visit_missing(OpId op);
  bool execute(OpId op);
  bool make_one_by_one(OpId op, int depth);

  const Problem& problem_;
  const std::int64_t min_bytes_;
  IdVector<ValueId, char> arena_, can_evict_;
  Rows<ValueId, ValueId> views_;  // per value; empty when nothing has views
  // Flat copies of what recompute_seconds goes through: per op, what it reads and may be evicted;
  // per value, its producer and the last op that reads it (-1: none).
  Rows<OpId, ValueId> ancestors_;
  IdVector<ValueId, OpId> producer_, last_use_;
  IdVector<OpId, double> prefix_seconds_;
  IdVector<OpId, double> weight_;  // prefix sums

  SimulationStyle style_;
  std::int64_t limit_ = 0, used_ = 0;
  OpId now_{0};
  IdVector<ValueId, char> resident_, fresh_;  // fresh: not read since it was made
  IdVector<ValueId, std::int32_t> next_, need_;
  IdVector<ValueId, std::uint32_t> version_;
  IdVector<ValueId, double> chain_seconds_;
  double scored_seconds_ = 0;
  std::vector<Entry> heap_;
  IdVector<OpId, std::uint32_t> stamp_;
  IdVector<ValueId, std::uint32_t> value_stamp_;
  std::uint32_t round_ = 0, value_round_ = 0;
  std::vector<OpId> recompute_set_;
  std::vector<std::pair<OpId, std::size_t>> stack_;
  std::vector<ValueId> search_;
  Schedule schedule_;
  std::size_t most_executions_ = 0;
};

}  // namespace plimsoll::planner
