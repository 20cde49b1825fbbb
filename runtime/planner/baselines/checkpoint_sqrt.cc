// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "runtime/planner/baselines/baselines.h"
#include "runtime/planner/baselines/checkpoints.h"

namespace plimsoll::planner {
namespace {

// Whether a value is one of about sqrt(n) of the order that are to be kept.
IdVector<ValueId, char> sqrt_checkpoints(const Problem& problem) {
  const int n = problem.op_count();
  const int stride = std::max(1, static_cast<int>(std::lround(std::sqrt(n))));
  IdVector<ValueId, char> keep(problem.values.size(), 0);
  for (OpId op(0); op < problem.ops.end_id(); op += stride) {
    for (const ValueId v : problem.outputs[op]) {
      if (v >= 0) keep[v] = 1;
    }
  }
  return keep;
}

}  // namespace

std::optional<Schedule> checkpoint_sqrt(const Problem& problem, std::int64_t arena_limit,
                                        std::int64_t min_bytes) {
  return keep_checkpoints(problem, sqrt_checkpoints(problem), arena_limit, min_bytes);
}

}  // namespace plimsoll::planner
