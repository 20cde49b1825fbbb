// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/base/fork.h"

namespace plimsoll::executor {

// How many plans this process makes in the background. Making one takes a processor, or its caches,
// from what is timed meanwhile. A child that was forked begins at none, as it has none of the
// threads. Thread-safe.
class PlansUnderWay {
 public:
  void begin() { add(1); }
  void end() { add(-1); }
  bool any() const { return count(state_.load(std::memory_order_relaxed)) > 0; }

 private:
  // The process that counts, then what it counts.
  static std::uint64_t pack(std::uint32_t count) {
    return std::uint64_t{process_generation()} << 32 | count;
  }
  static std::uint32_t count(std::uint64_t state) {
    return state >> 32 == process_generation() ? static_cast<std::uint32_t>(state) : 0;
  }
  void add(int change) {
    std::uint64_t state = state_.load(std::memory_order_relaxed);
    std::uint64_t next = 0;
    do {
      const std::uint32_t now = count(state);
      if (change < 0 && now == 0) return;  // begun before the fork
      next = pack(now + static_cast<std::uint32_t>(change));
    } while (!state_.compare_exchange_weak(state, next, std::memory_order_relaxed));
  }

  std::atomic<std::uint64_t> state_{0};
};

}  // namespace plimsoll::executor
