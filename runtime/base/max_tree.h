// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/index.h"

namespace plimsoll {

// What a change does to the numbers of a range: adds to them, or raises those that are less.
struct Adding {
  std::int64_t operator()(std::int64_t number, std::int64_t change) const {
    return number + change;
  }
};
struct Raising {
  std::int64_t operator()(std::int64_t number, std::int64_t change) const {
    return std::max(number, change);
  }
};

// A row of numbers, none below 0, that are changed by ranges, with the maximum over a range or over
// all, each in logarithmic time: a segment tree whose nodes keep what was done to all below them,
// instead of handing it down.
//
// Example of eight numbers: raising [2, 5] to 9 marks the nodes of [2, 3] and [4, 5]. The maximum
// over [3, 4] begins at the leaves 3 and 4, and finds the 9 on their way up, at [2, 3] and [4, 5].
template <typename Change>
class MaxTree {
 public:
  void build(std::span<const std::int64_t> numbers) {
    leaves_ = 1;
    while (at(leaves_) < numbers.size()) leaves_ *= 2;
    nodes_.assign(at(leaves_) * 2, {});
    for (std::size_t i = 0; i < numbers.size(); ++i) nodes_[at(leaves_) + i].most = numbers[i];
    for (std::int32_t i = leaves_ - 1; i >= 1; --i) pull(i);
  }

  std::int64_t max() const { return node(1).most; }

  // The first position that has the maximum. Where all were raised alike, children don't tell.
  std::int32_t argmax() const
    requires std::same_as<Change, Adding>
  {
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
        left = Change()(left, node(i).done);
        right = Change()(right, node(j).done);
      }
      left = std::max(left, right);
    }
    for (i /= 2; i >= 1; i /= 2) left = Change()(left, node(i).done);
    return left;
  }

  // Changes the numbers at from .. to, both included; none if from > to. By 0 changes nothing.
  void change(std::int32_t from, std::int32_t to, std::int64_t by) {
    if (from > to || by == 0) return;
    const std::int32_t first = from + leaves_, last = to + leaves_;
    for (std::int32_t l = first, r = last + 1; l < r; l /= 2, r /= 2) {
      if (l & 1) apply(l++, by);
      if (r & 1) apply(--r, by);
    }
    std::int32_t i = first / 2, j = last / 2;
    for (; i != j; i /= 2, j /= 2) {
      pull(i);
      pull(j);
    }
    for (; i >= 1; i /= 2) pull(i);
  }

  // Other numbers at first .. last, both included, of `numbers`. Not after change().
  void set(std::int32_t first, std::int32_t last, std::span<const std::int64_t> numbers) {
    for (std::int32_t t = first; t <= last; ++t) node(leaves_ + t).most = numbers[at(t)];
    for (std::int32_t l = (leaves_ + first) / 2, r = (leaves_ + last) / 2; l >= 1; l /= 2, r /= 2) {
      for (std::int32_t i = l; i <= r; ++i) pull(i);
    }
  }

 private:
  struct Node {
    std::int64_t most = 0, done = 0;  // `done`: to all below, not to be found there
  };

  Node& node(std::int32_t i) { return nodes_[at(i)]; }
  const Node& node(std::int32_t i) const { return nodes_[at(i)]; }
  void apply(std::int32_t i, std::int64_t by) {
    node(i).most = Change()(node(i).most, by);
    node(i).done = Change()(node(i).done, by);
  }
  void pull(std::int32_t i) {
    node(i).most = Change()(std::max(node(2 * i).most, node(2 * i + 1).most), node(i).done);
  }

  std::int32_t leaves_ = 1;
  std::vector<Node> nodes_;
};

}  // namespace plimsoll
