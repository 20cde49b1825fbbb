// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "runtime/planner/pack_instance.h"

namespace plimsoll::planner {

// Places buffers one by one, each into a hole between those placed before it: the lowest that is
// large enough, or the smallest. No lists of neighbours: those of a buffer are found by its births
// and by who lived at a checkpoint before, so memory stays linear.
class PackFit {
 public:
  enum class Hole { lowest, smallest };

  explicit PackFit(const PackInstance& instance);

  // Takes everything out.
  void clear();
  void place_at(std::int32_t item, std::int64_t offset);
  // Into a hole. A buffer that would end at or below `skyline` when put on top of all that lives
  // with it is put there at once, which takes logarithmic time. Returns the offset.
  std::int64_t place(std::int32_t item, Hole hole, std::int64_t skyline = 0);

  std::int64_t height() const { return height_; }
  const std::vector<std::int64_t>& offsets() const { return offsets_; }
  // Units of work since the last call.
  std::int64_t take_work() { return std::exchange(work_, 0); }

 private:
  template <typename F>
  void each_neighbour(const PackInstance::Item& item, const F& visit);
  std::int64_t top(std::int32_t begin, std::int32_t end);
  void raise_top(std::int32_t begin, std::int32_t end, std::int64_t value);

  const PackInstance& instance_;
  std::vector<std::int32_t> by_birth_;    // item ids by first section
  std::vector<std::int32_t> rank_;        // and back
  std::vector<std::int32_t> first_;       // per section, the first in by_birth_ that begins there
  std::int32_t stride_ = 16;              // sections between checkpoints
  std::vector<std::int32_t> checkpoint_;  // per checkpoint, where its list starts
  std::vector<std::int32_t> alive_;       // ranks of what lives there
  std::vector<std::int32_t> end_;         // by rank
  std::vector<std::int64_t> bottom_, upper_;  // by rank: the place; bottom -1 when not placed
  std::vector<std::int64_t> tree_, lazy_;     // highest top per range of sections
  std::size_t leaves_ = 1;
  std::vector<std::pair<std::int64_t, std::int64_t>> taken_;
  std::vector<std::int64_t> offsets_;
  std::int64_t height_ = 0, work_ = 0;
};

// Offsets by a walk through time, as an allocator would give them that has no idea of the future.
// Near-linear.
PackSolution pack_sweep(const PackInstance& instance, PackFit::Hole hole);

}  // namespace plimsoll::planner
