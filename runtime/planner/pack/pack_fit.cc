// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/pack/pack_fit.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "runtime/base/index.h"

// Best fit and lowest fit over lives.
//
// A buffer may lie at an offset if no buffer that was placed before and lives at the same time
// overlaps it there. The neighbours of a buffer, by rising bottoms, leave holes between the highest
// top so far (`end`) and the next bottom. Example: neighbours at [0, 4), [2, 6) and [10, 12), and a
// buffer of 3 bytes: up to the third neighbour `end` is 6, so [6, 10) is a hole of 4 bytes, the
// lowest one; above 12 there is always room.
//
// Two structures make this fast. Placed buffers stand in blocks of about equal numbers, by rising
// offsets, in each *span* of time that they live in; a scan of one span's blocks, from the ground,
// meets every neighbour in order. And a max-tree over sections says how high the neighbours reach
// at all: a buffer that would end below the skyline when put on top of everything needs no scan.

namespace plimsoll::planner {
namespace {

// A span is this many mean lives long, so that few buffers lie in more than one.
constexpr std::int64_t kMeanLivesPerSpan = 64;
constexpr std::int64_t kItemsPerSpan = 4'096;

}  // namespace

PackFit::PackFit(const PackInstance& instance) : instance_(instance) {
  std::int64_t lived = 0;
  for (const auto& item : instance.items) lived += item.end - item.begin;
  const auto count = static_cast<std::int64_t>(std::max<std::size_t>(instance.items.size(), 1));
  const std::int64_t sections = instance.sections();
  const std::int64_t least = sections * kItemsPerSpan / count;
  width_ = static_cast<std::int32_t>(
      std::max({lived / count * kMeanLivesPerSpan, least, sections / 4'096, std::int64_t{1}}));
  clear();
}

void PackFit::clear() {
  offsets_.assign(instance_.items.size(), -1);
  tops_.build(std::vector<std::int64_t>(instance_.load.size(), 0));
  spans_.clear();
  spans_.resize(at(instance_.sections() / width_ + 1));
  for (Span& span : spans_) span.push_back(std::make_unique<Block>());
  height_ = 0;
}

void PackFit::insert(Span& span, const PackInstance::Item& item, std::int64_t offset) {
  const auto behind =
      std::upper_bound(span.begin() + 1, span.end(), offset,
                       [](std::int64_t bytes, const auto& block) { return bytes < block->least; });
  auto where = behind - 1;
  if ((*where)->count == kBlock) {
    auto upper = std::make_unique<Block>();
    Block& lower = **where;
    constexpr std::size_t kHalf = kBlock / 2;
    const auto move = [&](auto& from, auto& to) {
      std::copy(from.begin() + kHalf, from.end(), to.begin());
    };
    move(lower.begin, upper->begin);
    move(lower.end, upper->end);
    move(lower.bottom, upper->bottom);
    move(lower.top, upper->top);
    lower.count = upper->count = kHalf;
    upper->least = upper->bottom[0];
    where = span.insert(where + 1, std::move(upper));
    if (offset < (*where)->least) --where;
  }
  Block& block = **where;
  const auto k = static_cast<std::ptrdiff_t>(
      std::upper_bound(block.bottom.begin(),
                       block.bottom.begin() + static_cast<std::ptrdiff_t>(block.count), offset) -
      block.bottom.begin());
  const auto put = [&](auto& array, auto value) {
    const auto last = array.begin() + static_cast<std::ptrdiff_t>(block.count);
    std::copy_backward(array.begin() + k, last, last + 1);
    array[at(k)] = value;
  };
  put(block.begin, item.begin);
  put(block.end, item.end);
  put(block.bottom, offset);
  put(block.top, offset + item.size);
  ++block.count;
  block.least = block.bottom[0];
}

template <typename F>
void PackFit::each_neighbour(const Span& span, const PackInstance::Item& item, const F& visit) {
  // One byte each says who lives at the same time: a loop that compilers turn into vectors.
  alignas(64) std::array<std::uint8_t, kBlock> meets;
  for (const auto& block : span) {
    const std::size_t count = (block->count + 7) / 8 * 8;
    std::fill(meets.begin() + static_cast<std::ptrdiff_t>(block->count),
              meets.begin() + static_cast<std::ptrdiff_t>(count), std::uint8_t{0});
    for (std::size_t k = 0; k < block->count; ++k) {
      meets[k] =
          static_cast<std::uint8_t>((block->begin[k] < item.end) & (block->end[k] > item.begin));
    }
    work_ += static_cast<std::int64_t>(count);
    for (std::size_t group = 0; group < count; group += 8) {
      std::uint64_t eight;
      std::memcpy(&eight, &meets[group], sizeof eight);
      if (eight == 0) continue;
      for (std::size_t k = group; k < group + 8; ++k) {
        if (!meets[k]) continue;
        ++work_;
        if (!visit(block->bottom[k], block->top[k])) return;
      }
    }
  }
}

std::int64_t PackFit::find_hole(const PackInstance::Item& item, Hole hole) {
  std::int64_t best = std::numeric_limits<std::int64_t>::max(), chosen = -1, end = 0;
  const auto visit = [&](std::int64_t bottom, std::int64_t top) {
    const std::int64_t gap = bottom - end;
    if (gap >= item.size && gap < best) {
      best = gap;
      chosen = end;
      if (hole == Hole::lowest) return false;
    }
    end = std::max(end, top);
    return true;
  };
  const auto first = at(item.begin / width_), last = at((item.end - 1) / width_);
  if (first == last) {
    each_neighbour(spans_[first], item, visit);
  } else {
    taken_.clear();
    for (auto span = first; span <= last; ++span) {
      each_neighbour(spans_[span], item, [&](std::int64_t bottom, std::int64_t top) {
        taken_.emplace_back(bottom, top);
        return true;
      });
    }
    std::sort(taken_.begin(), taken_.end());
    work_ += static_cast<std::int64_t>(taken_.size()) * 20;
    for (const auto& [bottom, top] : taken_) {
      if (!visit(bottom, top)) break;
    }
  }
  return chosen >= 0 ? chosen : end;
}

void PackFit::place_at(std::int32_t id, std::int64_t offset) {
  const auto& item = instance_.item(id);
  offsets_[at(id)] = offset;
  const auto last = at((item.end - 1) / width_);
  for (auto span = at(item.begin / width_); span <= last; ++span) {
    insert(spans_[span], item, offset);
  }
  tops_.change(item.begin, item.end - 1, offset + item.size);
  height_ = std::max(height_, offset + item.size);
}

std::int64_t PackFit::place(std::int32_t id, Hole hole, std::int64_t skyline) {
  const auto& item = instance_.item(id);
  work_ += 300;
  const std::int64_t over = tops_.max(item.begin, item.end - 1);
  const bool takes_top = over == 0 || over + item.size <= skyline;
  const std::int64_t offset = takes_top ? over : find_hole(item, hole);
  place_at(id, offset);
  return offset;
}

}  // namespace plimsoll::planner
