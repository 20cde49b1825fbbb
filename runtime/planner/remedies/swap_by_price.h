// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/planner/problem/problem.h"
#include "runtime/planner/problem/schedule.h"
#include "runtime/planner/remedies/remedies.h"

namespace plimsoll::planner {

// Swapping as a kind of recomputation: once a value has been copied out, it may be restored by
// copying it in, whenever and for whoever wants it, recomputations included. Which values may be,
// and what that is taken to cost, depends on a price for the engines' time; how far the transfers
// hide shows afterwards.
struct PricedSwaps {
  // Values come back by copying where recomputing them takes longer than this many times their
  // transfers.
  double engine_price = 0;
  // Kept free for what is on its way.
  std::int64_t margin = 0;
  // When given: just the values of these swaps come back by copying, and each stays until its copy
  // out was to be over.
  std::span<const Choice> chosen;
};

// A problem in which a value has several producers: its own, and the waits of its swap_ins.
struct SwapSchedule {
  std::shared_ptr<const Problem> problem;
  IdVector<ValueId, ValueId> origin;  // as of apply_choices
  Schedule schedule;                  // with transfers hidden as far as memory allows
};

// `seconds_again`: what recomputing a value takes, infinite where that is impossible. `forms`
// of compression are left alone. Nothing when `recompute` finds nothing or nothing is swapped.
std::optional<SwapSchedule> swap_by_price(const Problem& problem, std::span<const Form> forms,
                                          const PlanOptions& options,
                                          const IdVector<ValueId, double>& seconds_again,
                                          std::int64_t arena_limit, const PricedSwaps& style,
                                          const Recomputer& recompute);

}  // namespace plimsoll::planner
