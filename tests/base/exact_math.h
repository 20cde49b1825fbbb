// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "runtime/base/random_bits.h"

// References for the transcendental functions, and distances from them. The reference has so many
// more bits than what is measured that its own error (a few of its last places) does not show in
// the figures, and it is never rounded to the format measured, so near-ties need no care: f32 is
// measured against long double (64 bits), f64 against GCC's __float128 (113 bits, libquadmath).
namespace plimsoll::math::testing {

__extension__ typedef __float128 Quad;
using Long = long double;

// libquadmath's header belongs to GCC; its functions link with any compiler.
extern "C" {
Quad expq(Quad) noexcept;
Quad expm1q(Quad) noexcept;
Quad logq(Quad) noexcept;
Quad log1pq(Quad) noexcept;
Quad tanhq(Quad) noexcept;
Quad sinhq(Quad) noexcept;
Quad coshq(Quad) noexcept;
Quad asinhq(Quad) noexcept;
Quad acoshq(Quad) noexcept;
Quad atanhq(Quad) noexcept;
Quad asinq(Quad) noexcept;
Quad acosq(Quad) noexcept;
Quad atanq(Quad) noexcept;
Quad sinq(Quad) noexcept;
Quad cosq(Quad) noexcept;
Quad tanq(Quad) noexcept;
Quad erfq(Quad) noexcept;
Quad sqrtq(Quad) noexcept;
Quad cbrtq(Quad) noexcept;
Quad powq(Quad, Quad) noexcept;
Quad atan2q(Quad, Quad) noexcept;
Quad scalbnq(Quad, int) noexcept;
}

// 2^n as Wide.
inline Long power_of_two(int n, Long) { return std::ldexp(1.0L, n); }
inline Quad power_of_two(int n, Quad) { return scalbnq(1, n); }

inline constexpr double kWrong = 1e9;

// Distance in units in the last place of the exact result, subnormals' included; 0 where both are
// the same NaN, infinity or signed zero, kWrong where only one is.
template <typename Float, typename Wide>
double error_in_ulps(Float actual, Wide exact) {
  using Limits = std::numeric_limits<Float>;
  const auto rounded = static_cast<Float>(exact);
  if (std::isnan(rounded) || std::isnan(actual)) {
    return std::isnan(rounded) && std::isnan(actual) ? 0 : kWrong;
  }
  if (actual == 0 && rounded == 0) {
    return std::signbit(actual) == std::signbit(rounded) ? 0 : kWrong;
  }
  const Wide magnitude = exact < 0 ? -exact : exact;
  if (std::isinf(actual) || std::isinf(rounded)) {
    if (actual == rounded) return 0;
    // The last value before overflow may round either way.
    const Wide last = Wide{Limits::max()} * (1 + Wide{Limits::epsilon()});
    const bool near_overflow =
        magnitude <= last && magnitude >= Wide{Limits::max()} * (1 - Wide{Limits::epsilon()});
    return near_overflow ? 1 : kWrong;
  }
  int exponent = 0;
  std::frexp(rounded, &exponent);
  Wide unit = power_of_two(std::max(exponent, Limits::min_exponent) - Limits::digits, Wide{});
  // `rounded` may have reached the next power of two.
  if (exponent > Limits::min_exponent && magnitude < power_of_two(exponent - 1, Wide{})) unit /= 2;
  const Wide difference = actual - exact;
  return static_cast<double>((difference < 0 ? -difference : difference) / unit);
}

// The largest of many errors, and where.
struct WorstError {
  double ulps = 0;
  double x = 0, y = 0;
  void add(double error, double at_x, double at_y = 0) {
    if (error <= ulps) return;
    *this = {error, at_x, at_y};
  }
};

class Source {
 public:
  explicit Source(std::uint64_t seed = 1) : bits_(seed) {}
  std::uint64_t bits() { return bits_.next(); }
  // Every bit pattern.
  float any(float) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits())); }
  double any(double) { return std::bit_cast<double>(bits()); }
  double in(double low, double high) { return low + (high - low) * bits_.unit(); }
  // A magnitude of 2^-60 to 2^20 with every exponent alike.
  double spread() {
    const double magnitude = std::ldexp(in(1, 2), static_cast<int>(bits() % 80) - 60);
    return (bits() & 1) != 0 ? -magnitude : magnitude;
  }

 private:
  RandomBits bits_;
};

}  // namespace plimsoll::math::testing
