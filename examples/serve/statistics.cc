// SPDX-License-Identifier: Apache-2.0
#include "examples/serve/statistics.h"

#include <algorithm>

namespace plimsoll::examples::serve {
namespace {

std::int64_t nanoseconds(Clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
}

}  // namespace

void ModelStatistics::count_run(std::int64_t requests, std::int64_t rows, Clock::duration waited,
                                Clock::duration ran) {
  const std::lock_guard lock(mutex_);
  ++counts_.runs;
  counts_.rows += rows;
  counts_.queue_ns += nanoseconds(waited);
  counts_.run_ns += nanoseconds(ran) * requests;
}

void ModelStatistics::count_request(int status, Clock::duration took) {
  const std::lock_guard lock(mutex_);
  if (status != 200) {
    ++(status == 503 ? counts_.refused : status < 500 ? counts_.faulty : counts_.failed);
    counts_.failed_ns += nanoseconds(took);
    return;
  }
  ++counts_.succeeded;
  counts_.succeeded_ns += nanoseconds(took);
  counts_.last_inference_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                                  std::chrono::system_clock::now().time_since_epoch())
                                  .count();
  const double seconds = std::chrono::duration<double>(took).count();
  const auto bucket = std::lower_bound(kLatencyBounds.begin(), kLatencyBounds.end(), seconds);
  ++counts_.latency[static_cast<std::size_t>(bucket - kLatencyBounds.begin())];
}

ModelCounts ModelStatistics::read() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace plimsoll::examples::serve
