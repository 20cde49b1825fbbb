// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/random_bits.h"
#include "runtime/planner/problem/problem.h"
#include "runtime/planner/problem/schedule.h"
#include "runtime/planner/remat/schedule_editor.h"
#include "runtime/planner/remat/search_clock.h"

namespace plimsoll::planner {

// Searches among schedules near one that fits: some recomputations are taken out, and where that is
// too much, other values are evicted instead. What is not slower by more than a falling
// temperature allows is gone on from; the fastest is kept.
class LocalSearch {
 public:
  // `may_reorder`: first executions may be moved as well.
  LocalSearch(const Problem& problem, std::int64_t min_bytes, bool may_reorder, std::uint64_t seed);

  // Gives values up until the schedule fits; false when that fails or the clock says 1.
  bool fit(Schedule& schedule, std::int64_t arena_limit, SearchClock& clock);
  // The same, given about a tenth of a millisecond per op.
  bool fit(Schedule& schedule, std::int64_t arena_limit);
  // Makes `schedule`, which fits, faster, until the clock says 1.
  void improve(Schedule& schedule, std::int64_t arena_limit, SearchClock& clock);

 private:
  enum class Status : std::uint8_t { unknown, there, recomputed };
  struct Drop {
    ValueId value;
    std::int32_t before = 0;  // the read it is recomputed for
    double score = 0;
  };

  void make_room();
  void list_spans();
  bool may_drop(ValueId v) const { return may_drop_[v] != 0; }
  std::int32_t block_of(OpId op) const { return op.value() / block_; }
  Status status(ValueId v) const;
  void set_status(ValueId v, Status status);
  void begin_recompute_set(double most_seconds);
  bool need(ValueId v, std::int32_t slot);
  bool recompute(OpId op, std::int32_t slot);
  bool place_recompute_set(std::int32_t slot);
  void remove_cascade(std::int32_t slot);
  bool price(ValueId v, std::int32_t slot, std::int64_t over, Drop& drop);
  bool drop_at(std::int32_t slot, std::int32_t sample, double most_seconds);
  bool repair(double most_seconds);
  void try_removals(int tries);
  bool try_order_move();
  bool change(double most_seconds);
  bool fits() const { return editor_.profile().max() <= limit_; }
  double seconds_of(OpId op) const { return problem_.ops[op].seconds; }

  const Problem& problem_;
  const bool may_reorder_;
  ScheduleEditor editor_;
  RandomBits random_;
  std::int64_t limit_ = 0;
  IdVector<ValueId, char> may_drop_;
  std::vector<ValueId> droppable_;
  // Per block of ops, the values that may be there then.
  std::int32_t block_ = 1;
  std::vector<std::vector<ValueId>> spans_;
  // Where executions found no room to be put, and how much there should be; -1: nowhere.
  std::int32_t tight_slot_ = -1, wanted_free_slots_ = 0;
  std::int64_t work_ = 0;

  std::uint32_t round_ = 0;
  IdVector<ValueId, std::uint32_t> value_round_, tabu_round_;
  IdVector<OpId, std::uint32_t> op_round_;
  IdVector<ValueId, Status> status_;
  std::uint32_t tabu_ = 0;
  std::vector<OpId> recompute_set_;
  double set_seconds_ = 0, most_set_seconds_ = 0;
  std::int32_t over_from_ = 0, over_to_ = 0;  // where this change added bytes
};

}  // namespace plimsoll::planner
