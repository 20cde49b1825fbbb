// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "examples/data_parallel/task.h"
#include "plimsoll/plimsoll.hpp"

namespace plimsoll::examples {

// What one of the participants reports, as all of them know it at the end.
struct ParticipantMemory {
  std::int64_t peak_bytes = 0;
  std::int64_t steps_peak_bytes = 0;  // the same, without how the model was made
  std::int64_t limit_bytes = 0, unlimited_peak_bytes = 0;
  std::int64_t optimizer_bytes = 0;  // its state, and the shares that it updates
};
struct ParallelResult {
  std::string weights_sha256;             // of everybody
  double loss = 0;                        // of the last batch, all of it
  std::vector<ParticipantMemory> memory;  // by participant
  std::vector<std::vector<float>> weights;
  double median_step_seconds = 0;
};

// Trains this participant's part, in a context of its own. Throws plimsoll::Error, after which the
// others get it, too; INVALID_ARGUMENT where they were started otherwise (agreement.h), INTERNAL
// where the participants' weights differ.
ParallelResult train_participant(const ParallelOptions& options, const ParallelData& data,
                                 const Communicator& communicator);

// All participants, as threads of this process: the results are in their order. Throws what the
// first one threw.
std::vector<ParallelResult> train_threads(const ParallelOptions& options, const ParallelData& data);

// The greatest difference between weights of two runs, as a share of the largest weight of its
// tensor.
double weight_difference(const ParallelResult& a, const ParallelResult& b);

}  // namespace plimsoll::examples
