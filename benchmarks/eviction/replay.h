// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "benchmarks/eviction/recorded_log.h"
#include "runtime/base/status.h"

namespace plimsoll::eviction_benchmark {

// What came of a recorded log under a limit.
struct Replay {
  bool ok = false;  // it ran to its end
  Status why;       // else
  double base_seconds = 0, total_seconds = 0, recompute_seconds = 0;
  std::int64_t peak_bytes = 0, evictions = 0, recomputes = 0;
  double deciding_seconds = 0;  // wall time of it all: nothing is computed
  // Added time in percent of the plain step's.
  double overhead() const { return 100 * recompute_seconds / base_seconds; }
};

// "default"; "contiguous" and "scattered", the same on a device that gives out one range of
// addresses (runtime/memory/evictor/evictor.h); then the published heuristics
// (benchmarks/eviction/published_evictor.h).
std::vector<std::string_view> policy_names();

// Runs an evictor on a device that only keeps the books: what is gone is computed again, nothing is
// swapped. Fails, too, once it has computed for `most_overhead` percent more than the plain step.
// INVALID_ARGUMENT for a policy that is none of those.
Result<Replay> replay(const import::RecordedLog& log, std::int64_t limit_bytes,
                      std::string_view policy, double most_overhead = 900);

}  // namespace plimsoll::eviction_benchmark
