// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "examples/training/training_options.h"
#include "plimsoll/plimsoll.hpp"

namespace plimsoll::examples {

// The file that a training run is saved to, as its options say; without one it does nothing. The
// model and the optimizer outlive it.
class RunCheckpoint {
 public:
  // `total` steps has the run. `settings` are what the weights' shapes don't tell, by their flags'
  // names; they are saved, too.
  RunCheckpoint(const TrainingOptions& options, const nn::Module& model,
                optim::Optimizer& optimizer, std::int64_t total,
                std::vector<std::pair<std::string, std::int64_t>> settings = {});

  // How many steps the run has done: 0 where it begins. Throws where the file is one of another
  // program, seed, batch size or setting.
  std::int64_t resume();
  // Saves after every so many steps and after the last.
  void after_step(std::int64_t steps);

 private:
  const TrainingOptions options_;
  const std::int64_t total_;
  Checkpoint checkpoint_;
  std::int64_t steps_ = 0;
  // As they are now, and as the file has them.
  const std::vector<std::pair<std::string, std::int64_t>> settings_;
  std::vector<std::int64_t> saved_;
};

}  // namespace plimsoll::examples
