// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace plimsoll {
namespace {

// A 16-bit format, its value of `bits` computed from the definition.
template <typename T>
struct Format;
template <>
struct Format<Float16> {
  static constexpr int kExponentBits = 5, kMantissaBits = 10;
};
template <>
struct Format<Bfloat16> {
  static constexpr int kExponentBits = 8, kMantissaBits = 7;
};

template <typename T>
T of_bits(std::uint32_t bits) {
  T value;
  value.bits = static_cast<std::uint16_t>(bits);
  return value;
}

template <typename T>
double defined_value(std::uint32_t bits) {
  using F = Format<T>;
  constexpr int kBias = (1 << (F::kExponentBits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> F::kMantissaBits) & ((1 << F::kExponentBits) - 1);
  const int mantissa = static_cast<int>(bits) & ((1 << F::kMantissaBits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << F::kExponentBits) - 1) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  const int implied = exponent == 0 ? 0 : 1 << F::kMantissaBits;
  return sign * std::ldexp(mantissa + implied, std::max(exponent, 1) - kBias - F::kMantissaBits);
}

// The bits of infinity, which follow those of the largest finite value.
template <typename T>
constexpr std::uint32_t kInfinityBits =
    ((1u << Format<T>::kExponentBits) - 1) << Format<T>::kMantissaBits;

template <typename T>
class SmallFloat : public ::testing::Test {};
using Formats = ::testing::Types<Float16, Bfloat16>;
TYPED_TEST_SUITE(SmallFloat, Formats);

TYPED_TEST(SmallFloat, EveryValueWidensToWhatTheFormatDefinesAndComesBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto x = of_bits<TypeParam>(bits);
    const float wide = static_cast<float>(x);
    const double expected = defined_value<TypeParam>(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(wide)) << bits;
      ASSERT_TRUE(std::isnan(static_cast<float>(TypeParam(wide)))) << bits;
      continue;
    }
    ASSERT_EQ(wide, expected) << bits;
    ASSERT_EQ(std::signbit(wide), std::signbit(expected)) << bits;
    ASSERT_EQ(TypeParam(wide).bits, bits);
  }
}

// What lies between two neighbours goes to the nearer one, and to the even one from the middle;
// past the middle beyond the largest value, to infinity.
TYPED_TEST(SmallFloat, EveryIntervalRoundsToNearestAndItsMiddleToEven) {
  constexpr auto kInfinity = kInfinityBits<TypeParam>;
  for (std::uint32_t low = 0; low < kInfinity; ++low) {
    const double a = defined_value<TypeParam>(low);
    const double b = low + 1 < kInfinity ? defined_value<TypeParam>(low + 1)
                                         : 2 * a - defined_value<TypeParam>(low - 1);
    const double exact_middle = (a + b) / 2;
    const float middle = static_cast<float>(exact_middle);
    // The middle of bf16's two smallest subnormals is still a float.
    ASSERT_EQ(middle, exact_middle);
    const std::uint32_t even = (low & 1) == 0 ? low : low + 1;
    for (const std::uint32_t sign : {0u, 0x8000u}) {
      const float s = sign != 0 ? -1.0f : 1.0f;
      ASSERT_EQ(TypeParam(s * middle).bits, sign | even) << low;
      ASSERT_EQ(TypeParam(s * std::nextafter(middle, 0.0f)).bits, sign | low) << low;
      ASSERT_EQ(TypeParam(s * std::nextafter(middle, INFINITY)).bits, sign | (low + 1)) << low;
    }
  }
  constexpr float kLargest = std::numeric_limits<float>::max();
  EXPECT_EQ(TypeParam(kLargest).bits, kInfinity);
  EXPECT_EQ(TypeParam(-kLargest).bits, 0x8000 | kInfinity);
  EXPECT_EQ(TypeParam(INFINITY).bits, kInfinity);
}

TYPED_TEST(SmallFloat, EveryNanStaysOneWhateverBitsItHasLow) {
  for (std::uint32_t payload = 1; payload < 0x800000; payload = payload * 3 / 2 + 1) {
    for (const std::uint32_t sign : {0u, 0x80000000u}) {
      const float nan = std::bit_cast<float>(sign | 0x7f800000u | payload);
      EXPECT_TRUE(std::isnan(static_cast<float>(TypeParam(nan)))) << payload;
    }
  }
}

}  // namespace
}  // namespace plimsoll
