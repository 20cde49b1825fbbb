// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {

// Sorts `from`, of `count` entries, by merges of doubling width; `to` is as large. Returns which of
// the two holds the result. `before(b, a)`: the later entry b must come before a. Bottom up, so
// that a stable sort needs no stack and every round is a loop of independent merges, which can be
// shared out. Ties take the earlier entry: stable.
template <typename Entry, typename Before>
Entry* merge_sort(Entry* from, Entry* to, std::int64_t count, bool parallel, Before before) {
  for (std::int64_t width = 1; width < count; width *= 2) {
    const std::int64_t pairs = (count + 2 * width - 1) / (2 * width);
    const auto merge = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t pair = begin; pair < end; ++pair) {
        const std::int64_t low = pair * 2 * width;
        const std::int64_t middle = std::min(low + width, count);
        const std::int64_t high = std::min(low + 2 * width, count);
        std::int64_t a = low, b = middle;
        for (std::int64_t out = low; out < high; ++out) {
          const bool second = a == middle || (b < high && before(from[b], from[a]));
          to[out] = second ? from[b++] : from[a++];
        }
      }
    };
    if (parallel) {
      device::parallel_for(pairs, std::max<std::int64_t>(1, 8192 / width), merge);
    } else {
      merge(0, pairs);
    }
    std::swap(from, to);
  }
  return from;
}

}  // namespace plimsoll::kernels
