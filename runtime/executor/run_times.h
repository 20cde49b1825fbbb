// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace plimsoll::executor {

// Seconds of whole runs, where somebody asks for them. Thread-safe.
class RunTimes {
 public:
  static constexpr std::int64_t kMost = 32;

  // Forgets what was recorded before, and takes up to kMost runs from now on.
  void start();
  void stop() { is_on_.store(false, std::memory_order_relaxed); }
  // Goes on after stop(), with what was recorded before.
  void resume() { is_on_.store(true, std::memory_order_relaxed); }
  // False: nobody asks, and record() does nothing. Costs next to nothing.
  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }
  void record(double seconds);

  std::int64_t count() const;
  // Of the runs recorded; 0 where there are none.
  double median() const;

 private:
  std::atomic<bool> is_on_{false};
  mutable std::mutex mutex_;  // guards what follows
  std::array<double, static_cast<std::size_t>(kMost)> seconds_{};
  std::int64_t count_ = 0;
};

}  // namespace plimsoll::executor
