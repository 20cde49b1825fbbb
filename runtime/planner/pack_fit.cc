// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/pack_fit.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace plimsoll::planner {
namespace {

// Entries of all checkpoints' lists together, per buffer.
constexpr std::int64_t kCheckpointEntries = 32;

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

}  // namespace

PackFit::PackFit(const PackInstance& instance) : instance_(instance) {
  const std::size_t count = instance.items.size(), sections = instance.load.size();
  by_birth_.resize(count);
  std::iota(by_birth_.begin(), by_birth_.end(), 0);
  std::sort(by_birth_.begin(), by_birth_.end(), [&](std::int32_t a, std::int32_t b) {
    const auto &x = instance.item(a), &y = instance.item(b);
    return x.begin != y.begin ? x.begin < y.begin : a < b;
  });
  rank_.resize(count);
  end_.resize(count);
  first_.assign(sections + 1, 0);
  std::int64_t total = 0;
  for (std::size_t k = 0; k < count; ++k) {
    const auto& item = instance.item(by_birth_[k]);
    rank_[at(by_birth_[k])] = static_cast<std::int32_t>(k);
    end_[k] = item.end;
    ++first_[at(item.begin) + 1];
    total += item.end - item.begin;
  }
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  const std::int64_t room = kCheckpointEntries * static_cast<std::int64_t>(count) + 1;
  stride_ = static_cast<std::int32_t>(std::max<std::int64_t>(total / room + 1, 8));
  std::vector<std::int32_t> now;
  for (std::int32_t section = 0; section < instance.sections(); ++section) {
    if (section % stride_ == 0) {
      std::erase_if(now, [&](std::int32_t k) { return end_[at(k)] <= section; });
      checkpoint_.push_back(static_cast<std::int32_t>(alive_.size()));
      alive_.insert(alive_.end(), now.begin(), now.end());
    }
    for (auto k = first_[at(section)]; k < first_[at(section) + 1]; ++k) now.push_back(k);
  }
  checkpoint_.push_back(static_cast<std::int32_t>(alive_.size()));
  while (leaves_ < sections) leaves_ *= 2;
  clear();
}

void PackFit::clear() {
  const std::size_t count = instance_.items.size();
  bottom_.assign(count, -1);
  upper_.assign(count, -1);
  offsets_.assign(count, -1);
  tree_.assign(leaves_ * 2, 0);
  lazy_.assign(leaves_ * 2, 0);
  height_ = 0;
}

// Tops only rise, so `lazy` is a value that the whole range has at least.
std::int64_t PackFit::top(std::int32_t begin, std::int32_t end) {
  std::int64_t most = 0;
  const std::size_t l = at(begin) + leaves_, r = at(end) + leaves_;
  for (std::size_t node = l; node > 0; node /= 2) most = std::max(most, lazy_[node]);
  for (std::size_t node = r - 1; node > 0; node /= 2) most = std::max(most, lazy_[node]);
  for (std::size_t a = l, b = r; a < b; a /= 2, b /= 2) {
    if (a & 1) most = std::max(most, tree_[a++]);
    if (b & 1) most = std::max(most, tree_[--b]);
    // What covers a parent of one of the nodes between covers the end that is in that parent too.
  }
  return most;
}

void PackFit::raise_top(std::int32_t begin, std::int32_t end, std::int64_t value) {
  const auto touch = [&](std::size_t node) {
    tree_[node] = std::max(tree_[node], value);
    lazy_[node] = std::max(lazy_[node], value);
  };
  const std::size_t l = at(begin) + leaves_, r = at(end) + leaves_;
  for (std::size_t a = l, b = r; a < b; a /= 2, b /= 2) {
    if (a & 1) touch(a++);
    if (b & 1) touch(--b);
  }
  for (std::size_t node = l / 2; node > 0; node /= 2) tree_[node] = std::max(tree_[node], value);
  for (std::size_t node = (r - 1) / 2; node > 0; node /= 2) {
    tree_[node] = std::max(tree_[node], value);
  }
}

template <typename F>
void PackFit::each_neighbour(const PackInstance::Item& item, const F& visit) {
  const std::int32_t check = item.begin / stride_;
  const auto first = at(checkpoint_[at(check)]), last = at(checkpoint_[at(check) + 1]);
  for (auto k = first; k < last; ++k) {
    const auto other = at(alive_[k]);
    if (bottom_[other] >= 0 && end_[other] > item.begin) visit(other);
  }
  const auto here = at(first_[at(item.begin)]), behind = at(first_[at(item.end)]);
  const auto since = at(first_[at(check * stride_)]);
  for (auto other = since; other < here; ++other) {
    if (bottom_[other] >= 0 && end_[other] > item.begin) visit(other);
  }
  for (auto other = here; other < behind; ++other) {
    if (bottom_[other] >= 0) visit(other);
  }
  work_ += static_cast<std::int64_t>(last - first + behind - since);
}

void PackFit::place_at(std::int32_t id, std::int64_t offset) {
  const auto& item = instance_.item(id);
  const auto k = at(rank_[at(id)]);
  bottom_[k] = offset;
  upper_[k] = offset + item.size;
  offsets_[at(id)] = offset;
  raise_top(item.begin, item.end, offset + item.size);
  height_ = std::max(height_, offset + item.size);
}

std::int64_t PackFit::place(std::int32_t id, Hole hole, std::int64_t skyline) {
  const auto& item = instance_.item(id);
  work_ += 100;
  const std::int64_t over = top(item.begin, item.end);
  if (over == 0 || over + item.size <= skyline) {
    place_at(id, over);
    return over;
  }
  taken_.clear();
  each_neighbour(item,
                 [&](std::size_t other) { taken_.emplace_back(bottom_[other], upper_[other]); });
  std::sort(taken_.begin(), taken_.end());
  work_ += static_cast<std::int64_t>(taken_.size()) * 20;
  std::int64_t best = std::numeric_limits<std::int64_t>::max(), chosen = -1, end = 0;
  for (const auto& [from, to] : taken_) {
    const std::int64_t gap = from - end;
    if (gap >= item.size && gap < best) {
      best = gap;
      chosen = end;
      if (hole == Hole::lowest) break;
    }
    end = std::max(end, to);
  }
  if (chosen < 0) chosen = end;
  place_at(id, chosen);
  return chosen;
}

}  // namespace plimsoll::planner
