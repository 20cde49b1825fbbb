// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace plimsoll::cases {

// SplitMix64 (Steele, Lea, Flood 2014): the same numbers for a seed on every machine.
class Random {
 public:
  // The seed is mixed first: states a step apart would give the same numbers one place on.
  explicit Random(std::uint64_t seed) : state_(seed) { state_ = bits() ^ (seed << 32); }
  std::uint64_t bits() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // In [0, 1).
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
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
  std::uint64_t state_;
};

}  // namespace plimsoll::cases
