// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/planner/plan.h"

namespace plimsoll::planner {

struct LossyUse {
  CodecKind codec = CodecKind::none;
  std::int64_t encodes = 0;  // steps; those of callees once per call site
};
// How often a plan uses each codec that changes bits, in the order of CodecKind; only those in use.
std::vector<LossyUse> lossy_uses(const Plan& plan);

}  // namespace plimsoll::planner
