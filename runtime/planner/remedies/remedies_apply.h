// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/planner/remedies/remedies.h"

namespace plimsoll::planner {

// The problem in which these choices are taken: encode, decode and swap ops stand among the others,
// copies that come back are values of their own, so that every value has one producer and whatever
// schedules or recomputes needs to know nothing of remedies. One choice per value at most.
// INVALID_ARGUMENT when a choice is not possible: its value is not made in the arena, must survive
// to the end, is held by an asynchronous op, or the choice's ops stand in no possible order.
// `origin`, when given, receives per value of the result the value of `problem` that it is or
// holds.
Result<Problem> apply_choices(const Problem& problem, std::span<const Choice> choices,
                              IdVector<ValueId, ValueId>* origin = nullptr);

// True when no value is recomputed while a swap_out reads its bytes, and every swap_in of the
// schedule has its swap_wait: the schedules that emit_plan takes.
bool keeps_transfers(const Problem& problem, std::span<const OpId> schedule);

// E.g. "compress x by compare-mask(gt, 0)": for people.
std::string to_string(const Problem& problem, const Choice& choice);

}  // namespace plimsoll::planner
