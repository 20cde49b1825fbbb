// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/planner/planner.h"
#include "runtime/planner/problem/problem.h"
#include "runtime/planner/remedies/remedies.h"

namespace plimsoll::planner {

// A tier that a value may be swapped to. Times in nanoseconds.
struct SwapWay {
  MemorySpace tier = MemorySpace::host;
  std::int64_t bytes = 0;              // on the tier
  double out = 0, in = 0;              // how long a copy keeps its engine; 0: it is synchronous
  double out_taken = 0, in_taken = 0;  // what compute steps lose to it
  const Form* form = nullptr;
};

// What the swap planner works on: a problem under a limit, what may be swapped to where, and how
// long everything takes, in whole nanoseconds, so that sums are the same in whatever order they are
// made. Problem and forms must outlive it.
class SwapModel {
 public:
  // `forms`: by rising value; those that compress are passed over.
  SwapModel(const Problem& problem, std::span<const Form> forms, const PerTier<Tier>& tiers,
            std::int64_t arena_limit);

  const Problem& problem() const { return problem_; }
  std::int64_t limit() const { return limit_; }  // of the arena
  const PerTier<Tier>& tiers() const { return tiers_; }
  // The tiers that something may be swapped to.
  std::span<const MemorySpace> used_tiers() const { return used_; }
  // None: the value stays, or is recomputed.
  std::span<const SwapWay> ways(ValueId v) const {
    return std::span(ways_).subspan(at(first_way_[v]), at(first_way_[v + 1] - first_way_[v]));
  }
  double nanoseconds(OpId op) const { return nanoseconds_[op]; }
  double once_nanoseconds() const { return once_; }  // of running every op once

 private:
  const Problem& problem_;
  const PerTier<Tier> tiers_;
  const std::int64_t limit_;
  std::vector<SwapWay> ways_;
  IdVector<ValueId, std::int32_t> first_way_;  // one more at the end
  std::vector<MemorySpace> used_;
  IdVector<OpId, double> nanoseconds_;
  double once_ = 0;
};

}  // namespace plimsoll::planner
