// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/planner/problem/problem.h"
#include "runtime/planner/problem/schedule.h"

namespace plimsoll::planner {

// A forward chain, each op reading only the op before it, cut into stages of one op or several, and
// what runs backward along it: stage i reads backward, besides backward values, only results of
// stages i and i - 1, and the stages run from the last to the first. Ops share a stage where
// nothing but the next op reads a result and the next one's is no larger: it is never worth
// keeping.
struct Chain {
  struct Stage {
    double seconds = 0;           // of its forward ops
    std::int64_t bytes = 0;       // of the result that the next forward op reads
    std::int64_t side_bytes = 0;  // of its other results, which only the backward stage reads
    std::int64_t workspace = 0;   // besides the results, of the stage before as well
    std::int64_t in_place = 0;    // saved when the stage before's result dies in the stage
    bool reads_own = false, reads_sides = false, reads_before = false;  // by the backward stage
    std::int64_t backward_peak = 0;   // of backward values and workspaces during the stage
    std::int64_t backward_entry = 0;  // of backward values before the stage
    OpId first_forward{0}, first_backward{0};
    int forward_count = 1, backward_count = 0;
    bool operator==(const Stage&) const = default;
  };
  std::vector<Stage> stages;
};

// The problem as a chain; nothing when it is none.
std::optional<Chain> find_chain(const Problem& problem);

// The fastest schedule of a chain among those that work forward from what is kept, keeping until
// its stage ran backward what they chose to keep (Griewank and Walther, 2000, for equal ops;
// Beaumont et al., 2019, for others): by dynamic programming, exact in the bytes where the limit is
// few times their common divisor, rounded up elsewhere. Nothing when the problem is no chain, when
// no such schedule fits `arena_limit`, or when the chain is too long for about `effort` steps (if
// its stages are alike; some times as many if not).
std::optional<Schedule> chain_schedule(const Problem& problem, std::int64_t arena_limit,
                                       std::int64_t effort = 20'000'000);

}  // namespace plimsoll::planner
