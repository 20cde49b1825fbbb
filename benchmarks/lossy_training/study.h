// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "examples/train_fashion_mnist/training.h"

namespace plimsoll::benchmarks {

// A small residual network on made-up pictures, to see what codecs that change bits cost a training
// in accuracy. Ten classes of faint waves in noise: hard enough that an exact training is not
// always right either.
struct LossyStudy {
  std::int64_t train_images = 2000, test_images = 1000;
  std::int64_t epochs = 4;
  std::int64_t batch = 50;
  std::uint64_t noise = 180;  // of a pixel, 0 to 187; the waves are 60 high
};

struct LossyRun {
  examples::RunReport report;
  double mean_last_loss = 0;  // of the last tenth of the steps
};

// One training. `remedies` as PLIMSOLL_REMEDIES takes them, `memory_limit` as --memory-limit does.
// The seed decides the weights and the order of the pictures, which are the same for every seed.
// Throws plimsoll::Error.
LossyRun train_lossy(const LossyStudy& study, const std::string& remedies,
                     const std::string& memory_limit, std::uint64_t seed);

}  // namespace plimsoll::benchmarks
