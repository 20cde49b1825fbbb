// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "examples/serve/program.h"

namespace plimsoll::examples::serve {

// Puts rows of several requests into one run of a program, whose other rows are zeros. A request
// waits `window_microseconds` at most for others, and runs are one after the other, on a thread of
// its own. Requests are served in the order in which they came. Any thread.
class Batcher {
 public:
  // Both outlive it.
  Batcher(const Program& program, const BatchConfig& config, ModelStatistics& statistics);
  // Runs what waits.
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  // `rows` of each input that has rows, and all of the others; as many of each output (null: not
  // wanted). Returns when the outputs are there; throws HttpError.
  void run(std::span<const void* const> inputs, std::span<void* const> outputs, std::int64_t rows,
           Clock::time_point deadline);

 private:
  struct Waiting {
    std::span<const void* const> inputs;
    std::span<void* const> outputs;
    std::int64_t rows;
    Clock::time_point deadline, arrived;
    bool done = false;
    std::exception_ptr error;
  };
  void work();
  // How many from the front of the queue go into one run.
  std::size_t together() const;
  bool is_full() const;
  void run_batch(const std::vector<Waiting*>& batch);
  bool may_share(const Waiting& a, const Waiting& b) const;

  const Program& program_;
  const BatchConfig config_;
  ModelStatistics& statistics_;
  std::vector<std::vector<std::byte>> inputs_, outputs_;  // of a run
  std::mutex mutex_;                                      // guards what follows
  std::condition_variable arrived_, done_;
  std::deque<Waiting*> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace plimsoll::examples::serve
