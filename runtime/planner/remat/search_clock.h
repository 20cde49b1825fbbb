// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace plimsoll::planner {

// How much of its work a search has done.
class SearchClock {
 public:
  // `seconds` of time if positive, else `work` units (about a nanosecond each, unhurried).
  SearchClock(std::int64_t work, double seconds);
  void spend(std::int64_t work) { spent_ += work; }
  // 0 at the start, 1 and more at the end.
  double done() const;

 private:
  std::int64_t work_ = 0, spent_ = 0;
  double seconds_ = 0, start_ = 0;
};

}  // namespace plimsoll::planner
