// SPDX-License-Identifier: Apache-2.0
#include "runtime/serve/plan_trial.h"

#include <utility>

namespace plimsoll::executor {
namespace {

// Runs of one of the two in a row: the first finds caches as the other one left them, and what else
// the machine does comes and goes.
constexpr std::int64_t kInARow = 4;

// Some runs are not timed (samples are, step by step), or fail.
constexpr std::int64_t kMostRuns = 6 * PlanTrial::kRuns;

constexpr double kFasterThan = 0.99;

}  // namespace

PlanTrial::PlanTrial(std::shared_ptr<const Executable> incumbent,
                     std::shared_ptr<const Executable> challenger)
    : incumbent_(std::move(incumbent)), challenger_(std::move(challenger)) {
  incumbent_->run_times().start();
  challenger_->run_times().start();
}

PlanTrial::~PlanTrial() {
  incumbent_->run_times().stop();
  challenger_->run_times().stop();
}

void PlanTrial::pause(bool on) {
  if (std::exchange(is_paused_, on) == on) return;
  for (const auto& executable : {incumbent_, challenger_}) {
    on ? executable->run_times().stop() : executable->run_times().resume();
  }
}

const std::shared_ptr<const Executable>& PlanTrial::turn() const {
  return is_paused_ || runs_ / kInARow % 2 == 0 ? incumbent_ : challenger_;
}

bool PlanTrial::advance() {
  if (is_paused_) return false;
  ++runs_;
  return runs_ >= kMostRuns ||
         (incumbent_->run_times().count() >= kRuns && challenger_->run_times().count() >= kRuns);
}

bool PlanTrial::challenger_wins() const {
  const RunTimes& old = incumbent_->run_times();
  const RunTimes& other = challenger_->run_times();
  return old.count() >= kRuns && other.count() >= kRuns &&
         other.median() < kFasterThan * old.median();
}

}  // namespace plimsoll::executor
