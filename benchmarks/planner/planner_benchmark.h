// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "benchmarks/planner/section.h"
#include "runtime/base/status.h"

namespace plimsoll::planner_benchmark {

// Recorded training steps at falling limits: our overhead, replayed in bytes and in addresses,
// beside the best online heuristic, the best known schedule and the bound.
Result<Section> recorded_steps(const BenchOptions& options);

// Chains of equal operations against their exact optimum.
Result<Section> unit_chains(const BenchOptions& options);

// Published packing instances and a large made-up one: height over load, and time.
Result<Section> packing(const BenchOptions& options);

// Generated training steps by recomputation alone, and with codecs and a 25 GB/s link.
Result<Section> remedies(const BenchOptions& options);

// Planning time and memory over the size of generated training steps at half their peak.
Result<Section> growth(const BenchOptions& options);

// Passes and first plans at half the peak of programs of every shape (benchmarks/graphs), compiled
// and as written: their time over the size, of about as many instructions as said.
Result<Section> shapes(const BenchOptions& options);
Result<Section> shapes_of(const BenchOptions& options, std::span<const int> sizes);

}  // namespace plimsoll::planner_benchmark
