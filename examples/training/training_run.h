// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "examples/training/memory_limit.h"
#include "examples/training/run_report.h"
#include "examples/training/training_options.h"
#include "plimsoll/plimsoll.hpp"

namespace plimsoll::examples {

// One training run in a context of its own: steps under a limit, and the record of them. The loss
// of a step is read when the next one is recorded, so that recording and running overlap.
class TrainingRun {
 public:
  // With a communicator, one of several runs that train together: each has the limit for itself.
  TrainingRun(std::string program, const TrainingOptions& options,
              const Communicator& communicator = {});

  // The current one as long as this object lives.
  Context& context() { return context_; }

  // Backward, update and cut. At the first step the limit is found where it is a share of the peak.
  void step(const Tensor& loss, optim::Optimizer& optimizer, double max_gradient_norm = 0);
  // Reads the last step's loss.
  void finish_steps();

  // `loss 0.4312  5120 images/s  peak 41.2/43.0 MiB`, of the last step read.
  std::string progress_text(const std::string& unit) const;
  // Fills in what the context and the weights tell at the end.
  RunReport& finish(const nn::Module& model);
  RunReport& report() { return report_; }

 private:
  using Clock = std::chrono::steady_clock;
  bool limited_by_peak() const {
    return limit_ && limit_->kind == MemoryLimit::Kind::percent_of_peak;
  }
  void find_limit();
  void read_pending_loss();

  std::optional<MemoryLimit> limit_;
  bool wants_floor_;
  Context context_;
  ContextScope scope_;
  RunReport report_;
  bool limit_found_ = false;
  Tensor pending_loss_;
  Clock::time_point last_read_;
};

// SHA-256 over all parameters and buffers, in their order.
std::string hash_of_weights(const nn::Module& model);

}  // namespace plimsoll::examples
