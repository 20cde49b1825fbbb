// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/base/status.h"
#include "runtime/planner/plan.h"

// Addresses, for check_plan; only check*.cc include this.
namespace plimsoll::planner {

struct PlacedBytes {
  std::int64_t end = 0;   // of the highest buffer
  std::int64_t live = 0;  // the most alive at once
};

// No two buffers at `placement` may share bytes at any step, and each must have a life inside the
// plan. INTERNAL with the buffer. Of what is lent, the bytes of each result by themselves.
Result<PlacedBytes> check_overlaps(const Plan& plan, Placement placement);

// What results lend: no overlaps, and nothing that lives when the result itself is written, or that
// a result in host memory or in a parameter would lend.
Status check_lent(const Plan& plan);

}  // namespace plimsoll::planner
