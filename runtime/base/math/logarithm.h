// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/math/pair.h"
#include "runtime/base/math/parts.h"

// log and log1p for any f32 value type (scalar.h). Errors are in docs/numerics.md.
namespace plimsoll::math {
namespace parts {

// a = 2^exponent * (1 + f) with 1 + f in [2/3, 4/3), for positive normal a.
template <typename V, typename I>
struct Logarithm {
  I exponent;
  V f;
};
template <typename V>
auto split(const V& a) {
  const auto bits = bits_of(a);
  const auto exponent_bits =
      (bits - like(bits, std::int32_t{0x3f2aaaab})) & like(bits, std::int32_t{-0x800000});
  return Logarithm<V, std::decay_t<decltype(bits)>>{
      exponent_bits >> 23, from_bits(bits - exponent_bits) - like(a, 1.0f)};
}

// (log(1+f) - f) / f^2 on [-1/3, 1/3].
inline constexpr float kLogSeries[] = {
    -0x1p-1f,       0x1.555558p-2f,  -0x1.fffe28p-3f, 0x1.99968cp-3f,  -0x1.55b1d0p-3f,
    0x1.250bc6p-3f, -0x1.f171fep-4f, 0x1.b6af3ap-4f,  -0x1.0af51ep-3f, 0x1.f22602p-4f};

template <typename V>
V log_special(const V& x, const V& pole, const V& result) {
  const V finite = select(x == like(x, kInfinity), x, result);
  const V defined = select(x < pole, like(x, kNan), finite);
  const V value = select(x == pole, like(x, -kInfinity), defined);
  return select(x != x, x, value);
}

}  // namespace parts

template <typename V>
V log(const V& x) {
  const auto tiny = x < like(x, parts::kSmallestNormal);
  const auto split = parts::split(select(tiny, x * like(x, 0x1p23f), x));
  const V zero = like(x, 0.0f);
  const V exponent = to_float(split.exponent) - select(tiny, like(x, 23.0f), zero);
  const V& f = split.f;
  const V mantissa_log = fma(f * f, parts::horner(f, parts::kLogSeries), f);
  return parts::log_special(x, zero, fma(exponent, like(x, 0x1.62e43p-1f), mantissa_log));
}

template <typename V>
V log1p(const V& x) {
  const auto sum = two_sum(like(x, 1.0f), x);
  const auto split = parts::split(sum.high);
  // What rounding 1 + x lost counts as long as x is not huge.
  const auto most = like(split.exponent, std::int32_t{100});
  const auto capped = select(most < split.exponent, most, split.exponent);
  const V lost = sum.low * parts::power_of_two(like(capped, std::int32_t{0}) - capped);
  const auto f = two_sum(split.f, lost);
  // f - f^2/2 in pairs, as what comes after is small.
  const auto square = two_product(f.high, f.high);
  const V minus_half = like(x, -0.5f);
  V rest = fma(square.high * f.high, parts::horner_from(f.high, parts::kLogSeries, 1),
               fma(minus_half, square.low, fma(-f.low, f.high, f.low)));
  // ln(2) in two parts, the first so short that its product is exact.
  const V exponent = to_float(split.exponent);
  rest = fma(exponent, like(x, 0x1.7f7d1cp-20f), rest);
  const auto whole = fast_two_sum(exponent * like(x, 0x1.62e4p-1f), f.high);
  const auto total = fast_two_sum(whole.high, minus_half * square.high);
  const V result = total.high + (total.low + whole.low + rest);
  return select(x == like(x, 0.0f), x, parts::log_special(x, like(x, -1.0f), result));
}

}  // namespace plimsoll::math
