// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/executor/executable.h"

namespace plimsoll::executor {

// Which of two executables of the same program and limit is faster, by what their runs take: a few
// runs of one, a few of the other, and so on, until both have been timed often enough. A plan's
// price is the sum of its kernels' and transfers', measured one by one; what they take beside each
// other, on the same processors and caches, only whole runs tell. Not thread-safe.
class PlanTrial {
 public:
  // Runs of each that are timed.
  static constexpr std::int64_t kRuns = 16;

  PlanTrial(std::shared_ptr<const Executable> incumbent,
            std::shared_ptr<const Executable> challenger);
  ~PlanTrial();
  PlanTrial(const PlanTrial&) = delete;
  PlanTrial& operator=(const PlanTrial&) = delete;

  // While it is paused, the incumbent's turn, and no run counts.
  void pause(bool on);
  // The one that the next run is to take.
  const std::shared_ptr<const Executable>& turn() const;
  const std::shared_ptr<const Executable>& incumbent() const { return incumbent_; }
  const std::shared_ptr<const Executable>& challenger() const { return challenger_; }
  // Another run begins. True when the trial is over: both were timed, or have been run so often
  // that they ought to have been.
  bool advance();
  // The challenger wins where it takes at least 1 % less.
  bool challenger_wins() const;

 private:
  const std::shared_ptr<const Executable> incumbent_, challenger_;
  std::int64_t runs_ = 0;
  bool is_paused_ = false;
};

}  // namespace plimsoll::executor
