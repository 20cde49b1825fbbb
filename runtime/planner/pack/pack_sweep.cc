// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "runtime/base/index.h"
#include "runtime/planner/pack/pack_fit.h"

namespace plimsoll::planner {
namespace {

// The free ranges of an address space without end.
class Holes {
 public:
  Holes() { add(0, std::numeric_limits<std::int64_t>::max() / 2); }

  std::int64_t take(std::int64_t size, PackFit::Hole which) {
    auto hole = by_offset_.begin();
    if (which == PackFit::Hole::smallest) {
      hole = by_offset_.find(by_size_.lower_bound({size, 0})->second);
    } else {
      while (hole->second < size) ++hole;
    }
    const auto [offset, hole_size] = *hole;
    remove(hole);
    if (hole_size > size) add(offset + size, hole_size - size);
    return offset;
  }

  void give(std::int64_t offset, std::int64_t size) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + size) {
      size += next->second;
      next = remove(next);
    }
    if (next != by_offset_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        offset = before->first;
        size += before->second;
        remove(before);
      }
    }
    add(offset, size);
  }

 private:
  using ByOffset = std::map<std::int64_t, std::int64_t>;
  void add(std::int64_t offset, std::int64_t size) {
    by_offset_.emplace(offset, size);
    by_size_.emplace(size, offset);
  }
  ByOffset::iterator remove(ByOffset::iterator hole) {
    by_size_.erase({hole->second, hole->first});
    return by_offset_.erase(hole);
  }

  ByOffset by_offset_;
  std::set<std::pair<std::int64_t, std::int64_t>> by_size_;
};

}  // namespace

// Births and deaths in order of time over a list of free ranges, as an allocator that sees each
// request when it comes. Those born in one section are taken largest first, since the small ones
// fit into what the large ones leave. It is the first packing that the others must beat, and for
// very many buffers often the only one.
PackSolution pack_sweep(const PackInstance& instance, PackFit::Hole hole) {
  std::vector<std::int32_t> births(instance.items.size());
  std::iota(births.begin(), births.end(), 0);
  std::vector<std::int32_t> deaths = births;
  // The largest of those born together first.
  std::sort(births.begin(), births.end(), [&](std::int32_t a, std::int32_t b) {
    const auto &x = instance.item(a), &y = instance.item(b);
    if (x.begin != y.begin) return x.begin < y.begin;
    return x.size != y.size ? x.size > y.size : a < b;
  });
  std::sort(deaths.begin(), deaths.end(), [&](std::int32_t a, std::int32_t b) {
    const auto &x = instance.item(a), &y = instance.item(b);
    return x.end != y.end ? x.end < y.end : a < b;
  });
  PackSolution solution;
  solution.offsets.assign(births.size(), 0);
  Holes holes;
  std::size_t dead = 0;
  for (const std::int32_t id : births) {
    const auto& item = instance.item(id);
    for (; instance.item(deaths[dead]).end <= item.begin; ++dead) {
      holes.give(solution.offsets[at(deaths[dead])], instance.item(deaths[dead]).size);
    }
    const std::int64_t offset = holes.take(item.size, hole);
    solution.offsets[at(id)] = offset;
    solution.height = std::max(solution.height, offset + item.size);
  }
  return solution;
}

}  // namespace plimsoll::planner
