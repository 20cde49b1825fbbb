// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/pack/pack_eject.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/base/index.h"

namespace plimsoll::planner {
namespace {

constexpr double kScale = 1 << 20;
// An ejection search minimises height as a routing heuristic minimises vehicles: it takes a lower
// height as given, throws out what stands above it, and tries to put everything back. Placing a
// buffer at an offset ejects those that it meets there; the offset is the one at which they weigh
// least together. Example: X must be placed; at offset 0 it would meet P (weight 3) and Q (weight
// 2), on top of P it would meet R (weight 4): it goes on top of P, and R goes to the pool. If R
// then finds no free room, its weight grows by its worth each time, until throwing R out again
// costs more than throwing out P and Q: that is how the search leaves a cycle in which two buffers
// push each other out for ever.

// How far below the best the next packing shall be, as a part of what is above the floor: half of
// it whenever the search got stuck.
constexpr double kFirstStep = 0.05, kLeastStep = 0.001;
constexpr std::int64_t kMovesUntilStuck = 5'000;
constexpr std::int64_t kRemembered = 5;  // eighths of what weights gained
constexpr std::uint64_t kShaken = 10;    // one in so many is taken out when the search got stuck

}  // namespace

PackEjection::PackEjection(const PackInstance& instance, const PackSolution& start)
    : instance_(instance),
      best_(start),
      step_(kFirstStep),
      stuck_(kMovesUntilStuck),
      offset_(instance.items.size(), -1) {
  const std::size_t count = instance.items.size();
  for (Order* order : {&by_bottom_, &by_top_}) {
    order->begin.resize(count);
    order->end.resize(count);
    order->item.resize(count);
    order->edge.resize(count);
  }
  low_.resize(count);
  bottoms_.resize(count + 1);
  tops_.resize(count + 1);
  pool_.reserve(count);
  std::int64_t worth = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& item = instance.items[i];
    const double size = static_cast<double>(item.size) / static_cast<double>(instance.max_load);
    const double share = static_cast<double>(item.end - item.begin) / instance.sections();
    // Large and long buffers are hard to place again: worth grows with size and, more slowly, with
    // the part of the sections that the buffer lives in. Roots keep the greatest from outweighing
    // everything together.
    worth = static_cast<std::int64_t>(std::sqrt(size * std::sqrt(share)) * kScale) + 1;
    worth_.push_back(worth);
    weight_.push_back(worth);
    place(static_cast<std::int32_t>(i), start.offsets[i]);
  }
}

void PackEjection::Order::insert(const PackInstance::Item& of, std::int32_t id, Edge value) {
  const auto last = static_cast<std::ptrdiff_t>(count);
  const auto k = std::upper_bound(edge.begin(), edge.begin() + last, value.at,
                                  [](std::int64_t at, const Edge& one) { return at < one.at; }) -
                 edge.begin();
  const auto put = [&](auto& array, auto entry) {
    std::copy_backward(array.begin() + k, array.begin() + last, array.begin() + last + 1);
    array[at(k)] = entry;
  };
  put(begin, of.begin);
  put(end, of.end);
  put(item, id);
  put(edge, value);
  ++count;
}

void PackEjection::Order::erase(std::int32_t id, std::int64_t value) {
  const auto last = static_cast<std::ptrdiff_t>(count);
  auto k = std::lower_bound(edge.begin(), edge.begin() + last, value,
                            [](const Edge& one, std::int64_t at) { return one.at < at; }) -
           edge.begin();
  while (item[at(k)] != id) ++k;
  const auto cut = [&](auto& array) {
    std::copy(array.begin() + k + 1, array.begin() + last, array.begin() + k);
  };
  cut(begin);
  cut(end);
  cut(item);
  cut(edge);
  --count;
}

std::size_t PackEjection::Order::find_neighbours(const PackInstance::Item& of, std::int32_t* ids,
                                                 Edge* edges) const {
  // The comparisons by themselves are a loop that compilers turn into vectors.
  constexpr std::size_t kChunk = 512;
  alignas(64) std::array<std::uint8_t, kChunk> meets;
  std::size_t found = 0;
  for (std::size_t first = 0; first < count; first += kChunk) {
    const std::size_t size = std::min(count - first, kChunk);
    for (std::size_t k = 0; k < size; ++k) {
      meets[k] =
          static_cast<std::uint8_t>((begin[first + k] < of.end) & (end[first + k] > of.begin));
    }
    std::fill(meets.begin() + static_cast<std::ptrdiff_t>(size),
              meets.begin() + static_cast<std::ptrdiff_t>((size + 7) / 8 * 8), std::uint8_t{0});
    for (std::size_t group = 0; group < size; group += 8) {
      std::uint64_t eight;
      std::memcpy(&eight, &meets[group], sizeof eight);
      for (; eight != 0; eight &= eight - 1) {
        const std::size_t k = first + group + static_cast<std::size_t>(std::countr_zero(eight)) / 8;
        if (ids != nullptr) ids[found] = item[k];
        edges[found++] = edge[k];
      }
    }
  }
  edges[found] = {kFar, 0};
  return found;
}

void PackEjection::place(std::int32_t id, std::int64_t offset) {
  const auto& item = instance_.item(id);
  offset_[at(id)] = offset;
  by_bottom_.insert(item, id, {offset, weight_[at(id)]});
  by_top_.insert(item, id, {offset + item.size, weight_[at(id)]});
}

void PackEjection::eject(std::int32_t id) {
  by_bottom_.erase(id, offset_[at(id)]);
  by_top_.erase(id, offset_[at(id)] + instance_.item(id).size);
  offset_[at(id)] = -1;
  pool_.push_back(id);
  std::push_heap(pool_.begin(), pool_.end(), lighter());
}

// A neighbour is met at all offsets between its bottom less the item's size, and its top, both
// exclusive. So the least weight is met on the ground or on a top, and from there up to right below
// the next bottom. Of free room, the lowest; of what weighs the same, any. At either end of it.
std::int64_t PackEjection::cheapest_offset(const PackInstance::Item& item) {
  neighbours_ = by_bottom_.find_neighbours(item, low_.data(), bottoms_.data());
  by_top_.find_neighbours(item, nullptr, tops_.data());
  work_ += static_cast<std::int64_t>(by_bottom_.count * 2 + neighbours_ * 4);
  const std::int64_t last = height_ - item.size;
  std::int64_t met = 0, least = kFar, chosen = 0;
  std::uint64_t ties = 0;
  // Behind those that are met by now.
  const Edge* bottom = bottoms_.data();
  const auto consider = [&](std::int64_t offset) {
    for (; bottom->at < offset + item.size; ++bottom) met += bottom->weight;
    if (met > least) return;
    ties = met < least ? 1 : ties + 1;
    least = met;
    const std::uint64_t draw = random_.next();
    if (ties > 1 && draw / 2 % ties != 0) return;
    chosen = draw % 2 == 0 ? offset : std::min(bottom->at - item.size, last);
  };
  consider(0);
  // The first free room is the lowest one.
  for (const Edge* top = tops_.data(); least > 0 && top->at <= last; ++top) {
    met -= top->weight;
    consider(top->at);
  }
  fits_ = least == 0;
  return chosen;
}

void PackEjection::move(std::int32_t id) {
  const auto& item = instance_.item(id);
  const std::int64_t offset = cheapest_offset(item);
  ++moves_;
  if (!fits_) weight_[at(id)] += worth_[at(id)];
  for (std::size_t k = 0; k < neighbours_ && !fits_; ++k) {
    const std::int32_t other = low_[k];
    const std::int64_t bottom = offset_[at(other)];
    if (bottom < offset + item.size && bottom + instance_.item(other).size > offset) eject(other);
  }
  place(id, offset);
}

bool PackEjection::reach(std::int64_t height, std::int64_t end, PackBudget& budget) {
  // What lies right below it begins at a multiple of the alignment.
  height_ = height / instance_.alignment * instance_.alignment;
  while (by_top_.count > 0 && by_top_.edge[by_top_.count - 1].at > height) {
    eject(by_top_.item[by_top_.count - 1]);
  }
  while (!pool_.empty()) {
    if (moves_ >= end || budget.over()) return false;
    std::pop_heap(pool_.begin(), pool_.end(), lighter());
    const std::int32_t id = pool_.back();
    pool_.pop_back();
    work_ = 0;
    move(id);
    budget.spend(work_);
  }
  return true;
}

// When the search is stuck, weights keep 5/8 of what they have gained: what was hard before is
// still known, but no longer decides everything.
void PackEjection::forget() {
  for (std::size_t i = 0; i < weight_.size(); ++i) {
    weight_[i] = worth_[i] + (weight_[i] - worth_[i]) * kRemembered / 8;
  }
  for (Order* order : {&by_bottom_, &by_top_}) {
    for (std::size_t k = 0; k < order->count; ++k)
      order->edge[k].weight = weight_[at(order->item[k])];
  }
}

// And some of what lies well is put elsewhere, as what holds everything else up may never be met.
void PackEjection::shake() {
  for (std::size_t i = 0; i < offset_.size(); ++i) {
    if (offset_[i] >= 0 && random_.next() % kShaken == 0) eject(static_cast<std::int32_t>(i));
  }
}

void PackEjection::run(std::int64_t floor, std::int64_t moves, PackBudget& budget) {
  for (const std::int64_t end = moves_ + moves; best_.height > floor;) {
    if (moves_ >= end || budget.over()) return;
    const double above = static_cast<double>(best_.height - floor);
    const auto by = std::max<std::int64_t>(static_cast<std::int64_t>(above * step_), 1);
    if (reach(best_.height - by, std::min(end, stuck_), budget)) {
      best_ = {offset_, by_top_.edge[by_top_.count - 1].at};
      stuck_ = moves_ + kMovesUntilStuck;
    } else if (moves_ >= stuck_) {
      forget();
      shake();
      step_ = std::max(step_ / 2, kLeastStep);
      stuck_ = moves_ + kMovesUntilStuck;
    }
  }
}

}  // namespace plimsoll::planner
