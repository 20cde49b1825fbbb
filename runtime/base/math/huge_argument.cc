// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/math/huge_argument.h"

#include <array>
#include <limits>

#include "runtime/base/index.h"
#include "runtime/base/math/trigonometric64.h"

namespace plimsoll::math {
namespace {

__extension__ typedef unsigned __int128 Wide;

// 64 bits of 2/pi from bit `first` after the point on; zeros stand before the point.
std::uint64_t bits_at(int first) {
  if (first <= -64) return 0;
  if (first < 0) return kTwoOverPi[0] >> -first;
  const auto word = static_cast<std::size_t>(first / 64);
  const int shift = first % 64;
  const std::uint64_t high = kTwoOverPi[word] << shift;
  return shift == 0 ? high : high | kTwoOverPi[word + 1] >> (64 - shift);
}

using Quarter = f64::parts::Quarter<ScalarF64, ScalarI64>;

// Payne and Hanek's reduction (1983): only those bits of 2/pi are multiplied that reach the last
// two bits before the point and 192 after it. For finite |x| >= 1.
Quarter reduce(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1075;  // |x| = mantissa * 2^exponent
  const std::uint64_t mantissa = (bits & 0xfffffffffffff) | std::uint64_t{1} << 52;
  // Bits of 2/pi above weight 2^(2 - exponent) give multiples of four.
  const int first = exponent - 2;
  std::array<std::uint64_t, 4> product{};  // highest first; the two bits before the point on top
  Wide carry = 0;
  for (int i = 3; i >= 0; --i) {
    carry += Wide{mantissa} * bits_at(first + 64 * i);
    product[at(i)] = static_cast<std::uint64_t>(carry);
    carry >>= 64;
  }
  auto quadrant = static_cast<std::int64_t>(product[0] >> 62);
  // The fraction of a quadrant, 192 bits, to the nearest multiple.
  std::array<std::uint64_t, 3> fraction{};
  for (std::size_t i = 0; i < 3; ++i) fraction[i] = product[i] << 2 | product[i + 1] >> 62;
  const bool up = fraction[0] >> 63 != 0;
  if (up) {
    ++quadrant;
    bool borrow = true;  // the two's complement
    for (std::size_t i = 3; i-- > 0;) {
      fraction[i] = ~fraction[i] + (borrow ? 1 : 0);
      borrow = borrow && fraction[i] == 0;
    }
  }
  // As a pair of doubles, from the first set bit on.
  int zeros = 0;
  while (zeros < 128 && (fraction[0] >> 63) == 0) {
    fraction[0] = fraction[0] << 1 | fraction[1] >> 63;
    fraction[1] = fraction[1] << 1 | fraction[2] >> 63;
    fraction[2] <<= 1;
    ++zeros;
  }
  const double scale = f64::parts::power_of_two(ScalarI64{-zeros}).value;
  const double high = static_cast<double>(fraction[0] >> 11) * 0x1p-53 * scale;
  const double low =
      static_cast<double>((fraction[0] << 53 | fraction[1] >> 11) >> 11) * 0x1p-106 * scale;
  const auto turn =
      multiply<ScalarF64>({{high}, {low}}, {{0x1.921fb54442d18p+0}, {0x1.1a62633145c07p-54}});
  auto angle = fast_two_sum(turn.high, turn.low);
  bool negative = up;
  if (x < 0) {
    negative = !negative;
    quadrant = -quadrant;
  }
  if (negative) angle = {-angle.high, -angle.low};
  return {{quadrant}, angle};
}

bool is_finite(double x) { return x - x == 0; }

double sine_of_huge(double x) {
  if (!is_finite(x)) return std::numeric_limits<double>::quiet_NaN();
  const Quarter quarter = reduce(x);
  return f64::parts::sine_of_quarter(quarter.angle, quarter.quadrant).value;
}

double cosine_of_huge(double x) {
  if (!is_finite(x)) return std::numeric_limits<double>::quiet_NaN();
  const Quarter quarter = reduce(x);
  return f64::parts::sine_of_quarter(quarter.angle, quarter.quadrant + ScalarI64{1}).value;
}

double tangent_of_huge(double x) {
  if (!is_finite(x)) return std::numeric_limits<double>::quiet_NaN();
  const Quarter quarter = reduce(x);
  return f64::parts::tangent_of_quarter(quarter.angle, quarter.quadrant).value;
}

}  // namespace

const LaneFunction kSineOfHuge = {"plimsoll_sine_of_huge", sine_of_huge};
const LaneFunction kCosineOfHuge = {"plimsoll_cosine_of_huge", cosine_of_huge};
const LaneFunction kTangentOfHuge = {"plimsoll_tangent_of_huge", tangent_of_huge};

}  // namespace plimsoll::math
