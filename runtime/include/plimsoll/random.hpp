// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace plimsoll {

// Counter-based random numbers on the host: Philox4x32-10 (Salmon et al., "Parallel random numbers:
// as easy as 1, 2, 3", SC 2011). The i-th number of a (seed, stream) pair is a pure function of the
// three, so initial weights and batches don't depend on the order in which they are drawn.
class HostRandom {
 public:
  explicit HostRandom(std::uint64_t seed, std::uint64_t stream = 0)
      : seed_(seed), stream_(stream) {}

  // Block number `counter`: four independent words.
  std::array<std::uint32_t, 4> block(std::uint64_t counter) const {
    std::array<std::uint32_t, 4> x = {low(counter), high(counter), low(stream_), high(stream_)};
    std::uint32_t k0 = low(seed_);
    std::uint32_t k1 = high(seed_);
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t a = std::uint64_t{0xD2511F53u} * x[0];
      const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * x[2];
      x = {high(b) ^ x[1] ^ k0, low(b), high(a) ^ x[3] ^ k1, low(a)};
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return x;
  }

  std::uint32_t next_word() {
    if (used_ == 4) {
      words_ = block(counter_++);
      used_ = 0;
    }
    return words_[static_cast<std::size_t>(used_++)];
  }

  // Uniform in [0, 1), a multiple of 2^-24.
  float next_uniform() { return static_cast<float>(next_word() >> 8) * 0x1p-24f; }

  // Uniform in [0, bound), without bias. Precondition: bound > 0.
  std::uint64_t next_below(std::uint64_t bound) {
    const std::uint64_t reject_from = ~std::uint64_t{0} - (~std::uint64_t{0} % bound + 1) % bound;
    for (;;) {
      const std::uint64_t value = (std::uint64_t{next_word()} << 32) | next_word();
      if (value <= reject_from) return value % bound;
    }
  }

  // Standard normal (Box-Muller).
  float next_normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - static_cast<double>(next_uniform())));
    return static_cast<float>(radius * std::cos(6.283185307179586 * next_uniform()));
  }

 private:
  static std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
  static std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }

  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t counter_ = 0;
  std::array<std::uint32_t, 4> words_{};
  int used_ = 4;
};

}  // namespace plimsoll
