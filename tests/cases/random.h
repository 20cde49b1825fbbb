// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "runtime/base/random_bits.h"

namespace plimsoll::cases {

// The same numbers for a seed on every machine.
class Random {
 public:
  // The seed is mixed first: states a step apart would give the same numbers one place on.
  explicit Random(std::uint64_t seed) : bits_(mix_bits(seed) ^ (seed << 32)) {}
  std::uint64_t bits() { return bits_.next(); }
  // In [0, 1).
  double unit() { return bits_.unit(); }
  // In [0, limit); limit > 0.
  std::uint64_t below(std::uint64_t limit) { return bits() % limit; }
  // In [low, high].
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
  }
  bool chance(double probability) { return unit() < probability; }
  template <typename T>
  const T& pick(std::span<const T> values) {
    return values[below(values.size())];
  }

 private:
  RandomBits bits_;
};

}  // namespace plimsoll::cases
