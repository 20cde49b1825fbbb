// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/max_tree.h"
#include "runtime/planner/pack/pack_instance.h"

namespace plimsoll::planner {

// Places buffers one by one, each into a hole between those placed before it: the lowest that is
// large enough, or the smallest. Those placed lie in blocks by rising offset, which are scanned
// from the ground, so memory stays linear and no list of neighbours is needed.
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
  static constexpr std::size_t kBlock = 512;
  struct Block {
    std::size_t count = 0;
    std::int64_t least = 0;  // bottom of the first one
    std::array<std::int32_t, kBlock> begin, end;
    std::array<std::int64_t, kBlock> bottom, top;
  };

  using Span = std::vector<std::unique_ptr<Block>>;

  static void insert(Span& span, const PackInstance::Item& item, std::int64_t offset);
  // Calls visit(bottom, top) for all in a span that live together with the item, by rising bottoms,
  // until it returns false.
  template <typename F>
  void each_neighbour(const Span& span, const PackInstance::Item& item, const F& visit);
  std::int64_t find_hole(const PackInstance::Item& item, Hole hole);

  const PackInstance& instance_;
  std::int32_t width_ = 1;  // sections per span
  std::vector<Span> spans_;
  std::vector<std::pair<std::int64_t, std::int64_t>> taken_;
  MaxTree<Raising> tops_;  // the highest top per section
  std::vector<std::int64_t> offsets_;
  std::int64_t height_ = 0, work_ = 0;
};

// Offsets by a walk through time, as an allocator would give them that has no idea of the future.
// Near-linear.
PackSolution pack_sweep(const PackInstance& instance, PackFit::Hole hole);

}  // namespace plimsoll::planner
