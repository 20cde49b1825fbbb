// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace plimsoll::examples::serve {

using Clock = std::chrono::steady_clock;

// Requests by the seconds that they took, in buckets as Prometheus has them.
inline constexpr std::array<double, 14> kLatencyBounds = {
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};

// What one model has done since it was loaded, of which infer requests alone are counted.
struct ModelCounts {
  std::int64_t succeeded = 0;       // 200
  std::int64_t refused = 0;         // 503
  std::int64_t faulty = 0;          // 4xx
  std::int64_t failed = 0;          // 500
  std::int64_t rows = 0, runs = 0;  // that succeeded: rows of requests, runs of the program
  std::int64_t queue_ns = 0;        // waiting for a run to start that it is part of
  std::int64_t run_ns = 0;          // of those runs, waiting for memory included
  std::int64_t succeeded_ns = 0, failed_ns = 0;  // whole requests, without reading and writing
  std::int64_t last_inference_ms = 0;            // since the epoch
  std::array<std::int64_t, kLatencyBounds.size() + 1> latency{};  // of the succeeded; not summed up
};

// The same for any thread.
class ModelStatistics {
 public:
  void count_run(std::int64_t requests, std::int64_t rows, Clock::duration waited,
                 Clock::duration ran);
  // Of a whole request, with the status of its response.
  void count_request(int status, Clock::duration took);
  ModelCounts read() const;

 private:
  mutable std::mutex mutex_;
  ModelCounts counts_;
};

}  // namespace plimsoll::examples::serve
