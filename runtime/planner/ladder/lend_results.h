// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "runtime/planner/plan.h"
#include "runtime/planner/problem/problem.h"

namespace plimsoll::planner {

// A value of the arena that dies at the step that makes a result, which may be written over it.
struct TakenOver {
  BufferId value, result;  // of the same size
  StepId step;
};

// The buffers of results are the plan's from the start of the run, and empty until the step that
// makes the result. Here they take in what is dead by then: values that a result is written over
// become the result's own buffer, and others lie in it (Placement::lent), those first that live
// where the arena is fullest. Lives of all buffers must be known, and which are pinned; what is
// pinned stays where it is. Buffers may be numbered anew.
void lend_results(Plan& plan, std::span<const TakenOver> taken_over);

// Whether it is done for plans of this problem: an entry's, whose results are no trifle beside what
// it computes.
bool may_lend_results(const Problem& problem);

// Per op, the most that it may find there when it runs first: the bytes of the results' buffers in
// which nothing that ends as a result has been made by then, in the order of the problem. Empty:
// nothing anywhere.
IdVector<OpId, std::int64_t> lent_at_most(const Problem& problem);

}  // namespace plimsoll::planner
