// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace plimsoll::planner {

// Bytes at each position, with range addition and the maximum over a range or over all, in
// logarithmic time.
class ProfileTree {
 public:
  void build(const std::vector<std::int64_t>& values) {
    leaves_ = 1;
    while (leaves_ < static_cast<std::int32_t>(values.size())) leaves_ *= 2;
    nodes_.assign(static_cast<std::size_t>(leaves_) * 2, {});
    for (std::size_t i = 0; i < values.size(); ++i) {
      nodes_[i + static_cast<std::size_t>(leaves_)].most = values[i];
    }
    for (std::int32_t i = leaves_ - 1; i >= 1; --i) pull(i);
  }

  std::int64_t max() const { return node(1).most; }

  // The first position that has the maximum.
  std::int32_t argmax() const {
    std::int32_t i = 1;
    while (i < leaves_) i = 2 * i + (node(2 * i).most < node(2 * i + 1).most ? 1 : 0);
    return i - leaves_;
  }

  // The maximum over positions from .. to, both included; from <= to.
  std::int64_t max(std::int32_t from, std::int32_t to) const {
    std::int32_t i = from + leaves_, j = to + leaves_;
    std::int64_t left = node(i).most, right = node(j).most;
    if (i != j) {
      while (i / 2 != j / 2) {
        if (!(i & 1)) left = std::max(left, node(i ^ 1).most);
        if (j & 1) right = std::max(right, node(j ^ 1).most);
        i /= 2;
        j /= 2;
        left += node(i).added;
        right += node(j).added;
      }
      left = std::max(left, right);
    }
    for (i /= 2; i >= 1; i /= 2) left += node(i).added;
    return left;
  }

  // Positions from .. to, both included.
  void add(std::int32_t from, std::int32_t to, std::int64_t amount) {
    if (amount == 0 || from > to) return;
    const std::int32_t first = from + leaves_, last = to + leaves_;
    for (std::int32_t l = first, r = last + 1; l < r; l /= 2, r /= 2) {
      if (l & 1) apply(l++, amount);
      if (r & 1) apply(--r, amount);
    }
    std::int32_t i = first / 2, j = last / 2;
    for (; i != j; i /= 2, j /= 2) {
      pull(i);
      pull(j);
    }
    for (; i >= 1; i /= 2) pull(i);
  }

 private:
  struct Node {
    std::int64_t most = 0, added = 0;
  };

  Node& node(std::int32_t i) { return nodes_[static_cast<std::size_t>(i)]; }
  const Node& node(std::int32_t i) const { return nodes_[static_cast<std::size_t>(i)]; }
  void apply(std::int32_t i, std::int64_t amount) {
    node(i).most += amount;
    node(i).added += amount;
  }
  void pull(std::int32_t i) {
    node(i).most = std::max(node(2 * i).most, node(2 * i + 1).most) + node(i).added;
  }

  std::int32_t leaves_ = 1;
  std::vector<Node> nodes_;
};

}  // namespace plimsoll::planner
