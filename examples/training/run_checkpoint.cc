// SPDX-License-Identifier: Apache-2.0
#include "examples/training/run_checkpoint.h"

#include <filesystem>
#include <utility>

namespace plimsoll::examples {

namespace {

std::vector<std::pair<std::string, std::int64_t>> with_common(
    const TrainingOptions& options, std::vector<std::pair<std::string, std::int64_t>> settings) {
  settings.insert(settings.begin(),
                  {{"seed", static_cast<std::int64_t>(options.seed)}, {"batch", options.batch}});
  return settings;
}

}  // namespace

RunCheckpoint::RunCheckpoint(const TrainingOptions& options, const nn::Module& model,
                             optim::Optimizer& optimizer, std::int64_t total,
                             std::vector<std::pair<std::string, std::int64_t>> settings)
    : options_(options), total_(total), settings_(with_common(options, std::move(settings))) {
  for (const auto& [name, value] : settings_) saved_.push_back(value);
  if (options.checkpoint.empty()) return;
  checkpoint_.add("model", model);
  checkpoint_.add("optimizer", optimizer);
  checkpoint_.add("steps", steps_);
  for (std::size_t i = 0; i < settings_.size(); ++i) {
    checkpoint_.add(settings_[i].first, saved_[i]);
  }
}

std::int64_t RunCheckpoint::resume() {
  if (!options_.resume) return 0;
  if (options_.checkpoint.empty()) {
    throw Error(ErrorCode::invalid_argument, "--resume needs --checkpoint FILE");
  }
  if (!std::filesystem::exists(options_.checkpoint)) return 0;
  checkpoint_.load(options_.checkpoint);
  for (std::size_t i = 0; i < settings_.size(); ++i) {
    const auto& [name, value] = settings_[i];
    if (saved_[i] == value) continue;
    throw Error(ErrorCode::invalid_argument, options_.checkpoint + " is of a run with --" + name +
                                                 " " + std::to_string(saved_[i]) + " (this has " +
                                                 std::to_string(value) + ")");
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
