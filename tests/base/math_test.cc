// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "runtime/base/math/float64.h"
#include "runtime/base/math/transcendental.h"

namespace plimsoll::math {
namespace {

using Long = long double;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kTiniest = std::numeric_limits<float>::denorm_min();

// Distance in units of the last place of the exact result; 0 where both are the same NaN, infinity
// or signed zero, huge where one is and the other is not.
double error_in_ulps(float actual, Long exact) {
  constexpr double kWrong = 1e9;
  const auto rounded = static_cast<float>(exact);
  if (std::isnan(rounded) || std::isnan(actual)) {
    return std::isnan(rounded) && std::isnan(actual) ? 0 : kWrong;
  }
  if (actual == 0 && rounded == 0) {
    return std::signbit(actual) == std::signbit(rounded) ? 0 : kWrong;
  }
  if (std::isinf(exact) || (std::isinf(actual) != std::isinf(rounded))) {
    // The last float before overflow may round either way.
    const bool near_overflow = !std::isinf(exact) && std::fabs(exact) > kLargest * 0.9999999L;
    return actual == rounded ? 0 : near_overflow ? 1 : kWrong;
  }
  if (std::isinf(rounded)) return 0;
  int exponent = 0;
  std::frexp(exact, &exponent);
  const Long unit = std::ldexp(1.0L, std::max(exponent, -125) - 24);
  return static_cast<double>(std::fabs(actual - exact) / unit);
}

class Source {
 public:
  std::uint32_t bits() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(state_ >> 32);
  }
  float any() { return std::bit_cast<float>(bits()); }
  float in(float low, float high) {
    return low + (high - low) * static_cast<float>(bits() >> 8) * 0x1p-24f;
  }

 private:
  std::uint64_t state_ = 12345;
};

const float kSpecial[] = {0.0f,        -0.0f,       1.0f,      -1.0f,    0.5f,      -0.5f,
                          2.0f,        -2.0f,       3.0f,      -3.0f,    kInfinity, -kInfinity,
                          kNan,        kTiniest,    -kTiniest, 1e-40f,   -1e-40f,   kLargest,
                          -kLargest,   88.72283f,   88.72284f, -103.97f, -103.98f,  0x1p-126f,
                          16777215.0f, 16777217.0f, 1.5f,      -1.5f,    0.92499f,  0.925f,
                          0.64f,       0.63999f,    3.9f,      4.1f,     -88.0f,    1e30f};

struct Function {
  const char* name;
  ScalarF32 (*ours)(const ScalarF32&);
  Long (*exact)(Long);
  float low, high;  // where it changes
  double bound;     // in ulps, as docs/numerics.md states
};

const Function kFunctions[] = {
    {"exp", exp<ScalarF32>, std::exp, -105, 90, 1},
    {"expm1", expm1<ScalarF32>, std::expm1, -20, 90, 0.51},
    {"log", log<ScalarF32>, std::log, 0, 4, 1},
    {"log1p", log1p<ScalarF32>, std::log1p, -1, 4, 0.51},
    {"tanh", tanh<ScalarF32>, std::tanh, -10, 10, 1.5},
    {"logistic", logistic<ScalarF32>, [](Long x) { return 1 / (1 + std::exp(-x)); }, -104, 20, 1.5},
    {"sin", sin<ScalarF32>, std::sin, -100, 100, 0.51},
    {"cos", cos<ScalarF32>, std::cos, -100, 100, 0.51},
    {"tan", tan<ScalarF32>, std::tan, -100, 100, 0.51},
    {"erf", erf<ScalarF32>, std::erf, -4.5, 4.5, 1.1},
    {"cbrt", cbrt<ScalarF32>, std::cbrt, -10, 10, 0.51},
    {"rsqrt", rsqrt<ScalarF32>, [](Long x) { return 1 / std::sqrt(x); }, 0, 10, 1.5},
};

class MathFunction : public ::testing::TestWithParam<Function> {};

TEST_P(MathFunction, StaysWithinItsErrorBoundOverAllFloats) {
  const Function& f = GetParam();
  Source source;
  for (int i = 0; i < 100000; ++i) {
    for (float x : {source.any(), source.in(f.low, f.high)}) {
      const float y = f.ours({x}).value;
      ASSERT_LE(error_in_ulps(y, f.exact(x)), f.bound) << f.name << "(" << x << ") = " << y;
    }
  }
}

TEST_P(MathFunction, IsRightAtSpecialValues) {
  const Function& f = GetParam();
  for (float x : kSpecial) {
    const float y = f.ours({x}).value;
    EXPECT_LE(error_in_ulps(y, f.exact(x)), f.bound) << f.name << "(" << x << ") = " << y;
  }
}

INSTANTIATE_TEST_SUITE_P(All, MathFunction, ::testing::ValuesIn(kFunctions),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Math, PowStaysWithinItsErrorBound) {
  Source source;
  for (int i = 0; i < 100000; ++i) {
    const float pairs[][2] = {{source.any(), source.any()},
                              {source.in(0, 20), source.in(-20, 20)},
                              {source.in(-9, 9), std::nearbyint(source.in(-9, 9))}};
    for (const auto& [x, y] : pairs) {
      const float z = pow(ScalarF32{x}, ScalarF32{y}).value;
      ASSERT_LE(error_in_ulps(z, std::pow(Long{x}, Long{y})), 0.51) << x << " ^ " << y;
    }
  }
}

TEST(Math, PowAndAtan2FollowCAtSpecialValues) {
  for (float x : kSpecial) {
    for (float y : kSpecial) {
      EXPECT_LE(error_in_ulps(pow(ScalarF32{x}, ScalarF32{y}).value, std::pow(Long{x}, Long{y})),
                0.51)
          << x << " ^ " << y;
      EXPECT_LE(
          error_in_ulps(atan2(ScalarF32{x}, ScalarF32{y}).value, std::atan2(Long{x}, Long{y})),
          0.51)
          << "atan2(" << x << ", " << y << ")";
    }
  }
}

TEST(Math, Atan2StaysWithinItsErrorBound) {
  Source source;
  for (int i = 0; i < 100000; ++i) {
    const float pairs[][2] = {{source.any(), source.any()}, {source.in(-9, 9), source.in(-9, 9)}};
    for (const auto& [y, x] : pairs) {
      ASSERT_LE(
          error_in_ulps(atan2(ScalarF32{y}, ScalarF32{x}).value, std::atan2(Long{y}, Long{x})),
          0.51)
          << "atan2(" << y << ", " << x << ")";
    }
  }
}

TEST(Math, TrigonometryReducesArgumentsThatLieNextToMultiplesOfHalfPi) {
  // 16367173 * 2^72 is the float nearest (relatively) to a multiple of pi/2.
  for (float x : {16367173 * 0x1p72f, 1.57079637f, 3.14159274f, 2.5e38f}) {
    EXPECT_LE(error_in_ulps(cos(ScalarF32{x}).value, std::cos(Long{x})), 0.51) << x;
    EXPECT_LE(error_in_ulps(sin(ScalarF32{x}).value, std::sin(Long{x})), 0.51) << x;
  }
}

TEST(Math, MonotonicFunctionsAreMonotonicWhereTheirPiecesMeet) {
  for (float meeting : {0.64f, 0.925f}) {
    float before_tanh = 0, before_erf = 0;
    float x = meeting * 0.99999f;
    for (int i = 0; i < 400; ++i, x = std::nextafter(x, 2.0f)) {
      const float t = tanh(ScalarF32{x}).value, e = erf(ScalarF32{x}).value;
      EXPECT_GE(t, before_tanh - 0x1p-23f);
      EXPECT_GE(e, before_erf - 0x1p-23f);
      before_tanh = t;
      before_erf = e;
    }
  }
}

TEST(Math, LogisticInDoublesDoesNotOverflow) {
  EXPECT_EQ(f64::logistic(-800.0), 0.0);
  EXPECT_EQ(f64::logistic(800.0), 1.0);
  EXPECT_EQ(f64::logistic(0.0), 0.5);
  EXPECT_NEAR(f64::logistic(-700.0) / std::exp(-700.0), 1.0, 1e-15);
  EXPECT_EQ(f64::rsqrt(0.25), 2.0);
}

}  // namespace
}  // namespace plimsoll::math
