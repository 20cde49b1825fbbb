// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/planner/pack/pack.h"

namespace plimsoll::planner {

// Behind every address and every time.
inline constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();

// A packing problem as the algorithms in pack_*.cc see it: only buffers that take bytes, sizes
// rounded up to the alignment, and time cut down to its *sections*, the time steps between a birth
// and the next death. Two buffers meet if and only if they share a section.
struct PackInstance {
  struct Item {
    std::int32_t begin = 0, end = 0;  // alive in the sections [begin, end)
    std::int64_t size = 0;
    std::int64_t length = 0;    // of the life in the caller's time
    std::int32_t lifetime = 0;  // index in the caller's list
  };

  std::vector<Item> items;
  std::vector<std::int64_t> load;  // live bytes per section
  std::int64_t max_load = 0;
  std::int64_t alignment = 1;  // of sizes, and wanted of offsets

  PackInstance(std::span<const Lifetime> lifetimes, std::int64_t alignment);

  std::int32_t sections() const { return static_cast<std::int32_t>(load.size()); }
  const Item& item(std::int32_t i) const { return items[at(i)]; }
};

// Offsets per item, and the height they reach.
struct PackSolution {
  std::vector<std::int64_t> offsets;
  std::int64_t height = 0;
};

// How much may still be done: units of work (about a nanosecond each), or this thread's seconds if
// the caller gave some. Work alone decides without a clock, so results repeat.
class PackBudget {
 public:
  // `enough`: a height that ends the work.
  PackBudget(std::int64_t work, double seconds, std::int64_t enough = 0);

  void spend(std::int64_t work) { spent_ += work; }
  // Looks at the clock about once a hundred microseconds of work.
  bool over();
  std::int64_t spent() const { return spent_; }
  // There is a packing of this height.
  void found(std::int64_t height) { over_ = over_ || height <= enough_; }

 private:
  bool timed_ = false, over_ = false;
  std::int64_t work_ = 0, spent_ = 0, look_ = 0, enough_ = 0;
  double end_ = 0;
};

}  // namespace plimsoll::planner
