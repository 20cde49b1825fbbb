// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "examples/serve/repository.h"

namespace plimsoll::examples::serve {

// Responses of the whole server by hundreds of their status: [2] is 200 to 299; 503 apart.
struct ResponseCounts {
  std::array<std::atomic<std::int64_t>, 6> by_class{};
  std::atomic<std::int64_t> busy{0};
  void count(int status) {
    if (status == 503) {
      ++busy;
    } else {
      ++by_class[static_cast<std::size_t>(status / 100) % by_class.size()];
    }
  }
};

// Connections now, and those that were closed to make room, for being slow, or on arrival.
struct ConnectionCounts {
  std::atomic<std::int64_t> open{0}, reading{0}, writing{0};
  std::atomic<std::int64_t> idle{0}, slow{0}, refused{0};
};

// Prometheus' text format, version 0.0.4: memory by use, its peak and limit, bytes by remedy, runs,
// responses, and per model outcomes, runs and a histogram of latencies.
std::string metrics_text(const Runtime& runtime, const Repository& repository,
                         const ResponseCounts& responses, const ConnectionCounts& connections);

}  // namespace plimsoll::examples::serve
