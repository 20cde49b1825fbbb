// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/math/pair.h"
#include "runtime/base/math/parts64.h"

// log and log1p for any f64 value type (scalar.h). Errors are in docs/numerics.md.
namespace plimsoll::math::f64 {
namespace parts {

// exponent * ln(2) + log(1 + f + low), as in fdlibm's log: with s = f / (2 + f),
// log(1 + f) = f - f^2/2 + s (f^2/2 + s^2 (2/3 + ...)).
template <typename W>
W log_of_parts(const W& exponent, const W& f, const W& low) {
  static constexpr double kSeries[] = {
      0x1.5555555555592p-1, 0x1.999999997fce5p-2, 0x1.24924941fe471p-2, 0x1.c71c51fdbdadcp-3,
      0x1.7466417579544p-3, 0x1.39a1750e3a492p-3, 0x1.2f0844e990f92p-3};
  const W s = f / (like(f, 2.0) + f);
  const W square = s * s;
  const W half_square = f * f * like(f, 0.5);
  // The derivative 1 / (1 + f) is 1 - 2s + 2s^2 - ...
  const W slope = fma(square - s, like(f, 2.0), like(f, 1.0));
  W rest = fma(s, fma(square, math::parts::horner(square, kSeries), half_square), low * slope);
  rest = fma(exponent, like(f, -0x1.8432a1b0e2634p-43), rest);
  // This part of ln(2) is so short that its product is exact.
  const auto sum = fast_two_sum(exponent * like(f, 0x1.62e42fefa4p-1), f);
  return sum.high + (sum.low - (half_square - rest));
}

template <typename W>
W log_special(const W& x, const W& pole, const W& result) {
  const W finite = select(x == like(x, kInfinity), x, result);
  const W defined = select(x < pole, like(x, kNan), finite);
  const W value = select(x == pole, like(x, -kInfinity), defined);
  return select(x != x, x, value);
}

}  // namespace parts

template <typename W>
W log(const W& x) {
  const auto tiny = x < like(x, parts::kSmallestNormal);
  const auto split = parts::split(select(tiny, x * like(x, 0x1p54), x));
  const W zero = like(x, 0.0);
  const W exponent = parts::to_double(x, split.exponent) - select(tiny, like(x, 54.0), zero);
  return parts::log_special(x, zero, parts::log_of_parts(exponent, split.f, zero));
}

template <typename W>
W log1p(const W& x) {
  const auto sum = two_sum(like(x, 1.0), x);
  const auto split = parts::split(sum.high);
  // What rounding 1 + x lost counts as long as x is not huge.
  const auto most = like(split.exponent, std::int64_t{1000});
  const auto capped = select(most < split.exponent, most, split.exponent);
  const W lost = sum.low * parts::power_of_two(like(capped, std::int64_t{0}) - capped);
  const auto f = two_sum(split.f, lost);
  const W result = parts::log_of_parts(parts::to_double(x, split.exponent), f.high, f.low);
  return select(x == like(x, 0.0), x, parts::log_special(x, like(x, -1.0), result));
}

}  // namespace plimsoll::math::f64
