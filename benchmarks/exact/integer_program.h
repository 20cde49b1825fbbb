// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "runtime/planner/problem/problem.h"

namespace plimsoll::exact {

// The problem under `limit` in the LP file form: minimise the seconds of what runs again. Stage t
// ends with the first run of op t. Binaries r_t_k (op k runs in stage t) and s_t_v (value v is kept
// into stage t); p_t_v_k: v is live while op k of the stage runs; d_t_k_i: pair i of op k's reuse
// is taken.
std::string integer_program(const planner::Problem& problem, std::int64_t limit);

// Whether the solver can be called.
bool solver_installed();

struct Answer {
  enum class Outcome { optimal, infeasible, stopped } outcome = Outcome::stopped;
  double extra_seconds = 0;  // optimal: of what runs again
  double solver_seconds = 0;
};
// Writes the program into `folder` and lets the solver work on it for `seconds` at most.
Answer solve(const planner::Problem& problem, std::int64_t limit, const std::string& folder,
             double seconds);

}  // namespace plimsoll::exact
