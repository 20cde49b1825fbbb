// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/serve/current_executable.h"

namespace plimsoll::executor {

// The executables of one program, by question: a limit, and how the parameters are passed. One
// question may have several, made when different parts of the tiers were free. Everything that
// keeps executables keeps them here. Thread-safe.
class ExecutableCache {
 public:
  // As CurrentExecutable::create. Keeps the `most` that were planned last.
  ExecutableCache(std::shared_ptr<const Program> program, std::shared_ptr<memory::Budget> budget,
                  double drift, LimitedBy limited_by,
                  std::size_t most = std::numeric_limits<std::size_t>::max())
      : program_(std::move(program)),
        budget_(std::move(budget)),
        drift_(drift),
        limited_by_(limited_by),
        most_(most) {}

  const std::shared_ptr<const Program>& program() const { return program_; }

  // The first one of exactly this question; null where it was not planned.
  std::shared_ptr<CurrentExecutable> find(
      std::int64_t limit_bytes,
      std::span<const planner::ParameterResidency> parameters) const noexcept;
  // Plans for this question and keeps what comes of it.
  Result<std::shared_ptr<CurrentExecutable>> plan(const planner::PlanOptions& options);

  struct Answer {
    std::shared_ptr<const Executable> executable;
    std::shared_ptr<const CurrentExecutable> current;  // where it comes from
    bool planned = false;                              // a new plan was made
    std::int64_t replans = 0;  // made for this plan's sake since it was first made
  };
  // One that fits into the limit and the tiers, its parameters passed so: of those that are there
  // the fastest that is not slower than what the whole limit would give, else a new one. One whose
  // measured times have drifted is planned again here, between two runs.
  Result<Answer> find_or_plan(const planner::PlanOptions& options);

 private:
  struct Entry {
    planner::Question question;
    std::shared_ptr<CurrentExecutable> current;
  };
  std::shared_ptr<CurrentExecutable> fastest(const planner::PlanOptions& options) const;

  const std::shared_ptr<const Program> program_;
  const std::shared_ptr<memory::Budget> budget_;
  const double drift_;
  const LimitedBy limited_by_;
  const std::size_t most_;
  mutable std::mutex mutex_;    // guards what follows; nothing is planned with it
  std::vector<Entry> entries_;  // planned last at the end
};

}  // namespace plimsoll::executor
