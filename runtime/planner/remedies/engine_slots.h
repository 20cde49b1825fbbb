// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>

namespace plimsoll::planner {

// The time of one transfer engine: which stretches of it are taken. What takes no time of it, as a
// synchronous copy, fits anywhere.
class EngineSlots {
 public:
  // Start of the first free stretch of `seconds` that does not begin before `from`.
  double first_fit(double from, double seconds) const {
    if (seconds == 0) return from;
    double at = from;
    auto it = taken_.upper_bound(from);
    if (it != taken_.begin()) at = std::max(at, std::prev(it)->second);
    for (; it != taken_.end() && it->first < at + seconds; ++it) at = std::max(at, it->second);
    return at;
  }

  // Start of the last free stretch of `seconds` that is over by `until`; minus infinity when there
  // is none after `from`.
  double last_fit(double from, double until, double seconds) const {
    double end = until;
    if (seconds == 0) return end >= from ? end : -std::numeric_limits<double>::infinity();
    auto it = taken_.lower_bound(until);
    while (it != taken_.begin()) {
      --it;
      if (it->second <= end - seconds) break;
      end = std::min(end, it->first);
    }
    return end - seconds >= from ? end - seconds : -std::numeric_limits<double>::infinity();
  }

  void take(double from, double seconds) {
    if (seconds > 0) taken_[from] = from + seconds;
  }
  void give_back(double from) { taken_.erase(from); }

 private:
  std::map<double, double> taken_;  // start -> end
};

}  // namespace plimsoll::planner
