// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace plimsoll::examples {

// One line on standard error that tells how far a loop is: redrawn in place on a terminal, and
// otherwise written anew every ten seconds. Not thread-safe.
class ProgressBar {
 public:
  // A bar that is not `shown` does nothing.
  ProgressBar(std::string title, std::int64_t total, bool shown);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(std::int64_t done, const std::string& details);
  // Draws the last state and ends the line.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  void draw();

  std::string title_;
  std::string details_;
  std::int64_t total_;
  std::int64_t done_ = 0;
  bool shown_;
  bool terminal_;
  Clock::time_point last_drawn_;
};

}  // namespace plimsoll::examples
