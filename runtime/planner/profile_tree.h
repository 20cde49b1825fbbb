// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace plimsoll::planner {

// Bytes at each position, with range addition and the maximum over all, in logarithmic time.
class ProfileTree {
 public:
  void build(const std::vector<std::int64_t>& values) {
    leaves_ = 1;
    while (leaves_ < static_cast<std::int32_t>(values.size())) leaves_ *= 2;
    most_.assign(static_cast<std::size_t>(leaves_) * 2, 0);
    added_.assign(static_cast<std::size_t>(leaves_) * 2, 0);
    std::copy(values.begin(), values.end(), most_.begin() + leaves_);
    for (std::int32_t i = leaves_ - 1; i >= 1; --i) pull(i);
  }

  std::int64_t max() const { return most_[1]; }

  // Positions from .. to, both included.
  void add(std::int32_t from, std::int32_t to, std::int64_t amount) {
    if (amount == 0 || from > to) return;
    const std::int32_t first = from + leaves_, last = to + leaves_;
    for (std::int32_t l = first, r = last + 1; l < r; l /= 2, r /= 2) {
      if (l & 1) apply(l++, amount);
      if (r & 1) apply(--r, amount);
    }
    for (std::int32_t i = first / 2; i >= 1; i /= 2) pull(i);
    for (std::int32_t i = last / 2; i >= 1; i /= 2) pull(i);
  }

 private:
  void apply(std::int32_t i, std::int64_t amount) {
    most_[static_cast<std::size_t>(i)] += amount;
    added_[static_cast<std::size_t>(i)] += amount;
  }
  void pull(std::int32_t i) {
    const auto k = static_cast<std::size_t>(i);
    most_[k] = std::max(most_[2 * k], most_[2 * k + 1]) + added_[k];
  }

  std::int32_t leaves_ = 1;
  std::vector<std::int64_t> most_, added_;
};

}  // namespace plimsoll::planner
