// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/planner/plan.h"

namespace plimsoll::planner {

// Per step, the bytes of the buffers of the arena that live there; a perfect packing takes the
// most.
IdVector<StepId, std::int64_t> arena_load(const Plan& plan);

// What the arena of a plan holds at the step where most of it is in use, by what each buffer was
// made for; a callee's arena by what that holds at its own peak. The sum is Plan::arena_bytes.
struct ArenaBytes {
  std::int64_t activations = 0;  // values of steps; and the holes between buffers
  std::int64_t workspaces = 0;   // of kernels
  std::int64_t encoded = 0;      // what codecs have made of values
  std::int64_t staging = 0;  // uploaded parameters; windows of residuals that lie on other tiers
};
ArenaBytes arena_at_peak(const Plan& plan);

// Bytes of the copies that a run of the plan makes by encoding; callees once per call site, loop
// bodies once.
std::int64_t encoded_bytes(const Plan& plan);

// Bytes, aligned, of what the caller holds in host memory during a run, which count under no limit:
// what uploads bring in is in the arena meanwhile.
struct HostBytes {
  std::int64_t parameters = 0, results = 0;
};
HostBytes bytes_in_host_memory(const Plan& plan);

struct LossyUse {
  CodecKind codec = CodecKind::none;
  std::int64_t encodes = 0;  // steps; those of callees once per call site
};
// How often a plan uses each codec that changes bits, in the order of CodecKind; only those in use.
std::vector<LossyUse> lossy_uses(const Plan& plan);

}  // namespace plimsoll::planner
