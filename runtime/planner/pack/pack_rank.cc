// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/pack/pack_rank.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "runtime/base/index.h"

namespace plimsoll::planner {

std::vector<std::int64_t> fullest_sections(const PackInstance& instance) {
  // most[k][s]: over the 2^k sections from s on.
  //
  // A sparse table: the maximum over [begin, end) is that of two overlapping runs of a power of two
  // sections, one from the beginning and one up to the end.
  std::vector<std::vector<std::int64_t>> most{instance.load};
  for (std::size_t step = 1; step * 2 <= instance.load.size(); step *= 2) {
    const auto& row = most.back();
    std::vector<std::int64_t> next(row.size() - step);
    for (std::size_t s = 0; s < next.size(); ++s) next[s] = std::max(row[s], row[s + step]);
    most.push_back(std::move(next));
  }
  std::vector<std::int64_t> fullest;
  fullest.reserve(instance.items.size());
  for (const auto& item : instance.items) {
    const auto begin = at(item.begin);
    const auto end = at(item.end);
    std::size_t level = 0;
    while ((std::size_t{2} << level) <= end - begin) ++level;
    fullest.push_back(std::max(most[level][begin], most[level][end - (std::size_t{1} << level)]));
  }
  return fullest;
}

std::vector<std::int32_t> ranked_items(const PackInstance& instance, PackRank rank) {
  const std::size_t count = instance.items.size();
  const bool by_tenth = rank == PackRank::load_tenth_then_length;
  const bool by_load =
      by_tenth || rank == PackRank::load_then_size || rank == PackRank::load_then_length;
  std::vector<std::int64_t> load =
      by_load ? fullest_sections(instance) : std::vector<std::int64_t>(count, 0);
  if (by_tenth) {
    const std::int64_t tenth = instance.max_load / 10 + 1;
    for (std::int64_t& bytes : load) bytes /= tenth;
  }
  struct Entry {
    std::int64_t load;
    double first, second;
    std::int32_t item;
  };
  std::vector<Entry> entries;
  entries.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& item = instance.items[i];
    const auto size = static_cast<double>(item.size), length = static_cast<double>(item.length);
    const bool size_first = rank == PackRank::load_then_size || rank == PackRank::size;
    double first = size_first ? size : length, second = size_first ? length : size;
    if (rank == PackRank::area) first = size * length;
    entries.push_back({load[i], first, second, static_cast<std::int32_t>(i)});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(b.load, b.first, b.second, a.item) <
           std::tie(a.load, a.first, a.second, b.item);
  });
  std::vector<std::int32_t> order;
  order.reserve(count);
  for (const Entry& entry : entries) order.push_back(entry.item);
  return order;
}

}  // namespace plimsoll::planner
