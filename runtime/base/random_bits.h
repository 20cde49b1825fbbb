// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace plimsoll {

// Random numbers, small, fast, the same everywhere: splitmix64 (Steele, Lea and Flood 2014, "Fast
// splittable pseudorandom number generators"). Every state occurs once in a period of 2^64. States
// a step (kStep) apart give the same numbers one place on.
class RandomBits {
 public:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15u;

  explicit constexpr RandomBits(std::uint64_t seed) : state_(seed) {}
  constexpr std::uint64_t next() {
    state_ += kStep;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // 0 .. n - 1
  constexpr std::int32_t below(std::int32_t n) {
    return static_cast<std::int32_t>(((next() >> 32) * static_cast<std::uint64_t>(n)) >> 32);
  }
  // 0 .. 1, 1 excluded
  constexpr double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

// A bijection that leaves no pattern of `x`: the first number of that seed.
constexpr std::uint64_t mix_bits(std::uint64_t x) { return RandomBits(x).next(); }

}  // namespace plimsoll
