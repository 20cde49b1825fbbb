// SPDX-License-Identifier: Apache-2.0
#include "examples/training/run_checkpoint.h"

#include <filesystem>

namespace plimsoll::examples {

RunCheckpoint::RunCheckpoint(const TrainingOptions& options, const nn::Module& model,
                             optim::Optimizer& optimizer, std::int64_t total)
    : options_(options),
      total_(total),
      seed_(static_cast<std::int64_t>(options.seed)),
      batch_(options.batch) {
  if (options.checkpoint.empty()) return;
  checkpoint_.add("model", model);
  checkpoint_.add("optimizer", optimizer);
  checkpoint_.add("steps", steps_);
  checkpoint_.add("seed", seed_);
  checkpoint_.add("batch", batch_);
}

std::int64_t RunCheckpoint::resume() {
  if (!options_.resume) return 0;
  if (options_.checkpoint.empty()) {
    throw Error(ErrorCode::invalid_argument, "--resume needs --checkpoint FILE");
  }
  if (!std::filesystem::exists(options_.checkpoint)) return 0;
  checkpoint_.load(options_.checkpoint);
  if (seed_ != static_cast<std::int64_t>(options_.seed) || batch_ != options_.batch) {
    throw Error(ErrorCode::invalid_argument, options_.checkpoint + " is of a run with --seed " +
                                                 std::to_string(seed_) + " and --batch " +
                                                 std::to_string(batch_));
  }
  if (steps_ > total_) {
    throw Error(ErrorCode::invalid_argument, options_.checkpoint + " has done " +
                                                 std::to_string(steps_) + " steps, more than " +
                                                 std::to_string(total_));
  }
  return steps_;
}

void RunCheckpoint::after_step(std::int64_t steps) {
  if (options_.checkpoint.empty()) return;
  if (steps % options_.checkpoint_interval != 0 && steps != total_) return;
  steps_ = steps;
  checkpoint_.save(options_.checkpoint);
}

}  // namespace plimsoll::examples
