// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace plimsoll::eviction_benchmark {

// A chain of `layers` equal layers, forward and backward, each result one unit large and one unit
// of time, trained under a limit of so many units.
struct ChainRun {
  bool ok = false;
  std::int64_t operations = 0;  // run in all, those run again included
  std::int64_t peak_units = 0;
};
ChainRun train_chain(int layers, std::int64_t limit_units);

// `live` buffers of random sizes and times, each made of two earlier ones, under a limit that they
// just fill; then `evictions` times a new one comes.
struct DecisionRun {
  double seconds = 0;  // of the decisions
  std::int64_t evictions = 0;
};
DecisionRun decide(int live, int evictions, std::uint32_t seed);

}  // namespace plimsoll::eviction_benchmark
