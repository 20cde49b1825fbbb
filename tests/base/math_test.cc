// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "runtime/base/math/transcendental.h"
#include "runtime/base/math/transcendental64.h"
#include "tests/base/exact_math.h"

namespace plimsoll::math {
namespace {

using namespace testing;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Where functions change their ways, in f32 and in f64.
const double kSpecial[] = {
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 1.5, kInfinity, -kInfinity, kNan,
    0x1p-149, -0x1p-149, 1e-40, -1e-40, 0x1p-126, 0x1.fffffep127, -0x1.fffffep127, 0x1p-1074,
    -0x1p-1074, 1e-310, 0x1p-1022, 0x1.fffffffffffffp1023, -0x1.fffffffffffffp1023, 88.72283,
    88.72284, -87.5157, -103.97, -103.98, 709.782712893384, 709.7827128933841, -708.524,
    -745.1332191019411, -745.1332191019412, 0x1p28, 0x1.000002p28, 0x1p30, 0x1.0000000000001p30,
    -0x1.fffffep30, 16777215.0, 16777217.0, 9007199254740993.0, 1.0499999, 1.05, 1.125, 0.99999994,
    37.098911973530008, 1e22, 1e300,
    // The float and the double next to a multiple of pi/2, relatively.
    16367173 * 0x1p72, 0x1.6ac5b262ca1ffp849};

template <typename Float, typename Wide>
struct Function {
  const char* name;
  Float (*ours)(Float);
  Wide (*exact)(Wide);
  double low, high;  // where it changes
  double bound;      // in ulps, as docs/numerics.md states
};

template <ScalarF32 (*F)(const ScalarF32&)>
float plain(float x) {
  return F({x}).value;
}

template <ScalarF64 (*F)(const ScalarF64&)>
double plain64(double x) {
  return F({x}).value;
}

template <ScalarF64 (*F)(const ScalarF64&)>
float through_f64(float x) {
  return narrow(F(widen(ScalarF32{x}))).value;
}

using Function32 = Function<float, Long>;
const Function32 kFunctions32[] = {
    {"exp", plain<exp>, std::exp, -105, 90, 0.95},
    {"expm1", plain<expm1>, std::expm1, -20, 90, 0.8},
    {"log", plain<log>, std::log, 0, 4, 0.95},
    {"log1p", plain<log1p>, std::log1p, -1, 4, 0.8},
    {"tanh", plain<tanh>, std::tanh, -10, 10, 0.8},
    {"logistic", plain<logistic>, [](Long x) { return 1 / (1 + std::exp(-x)); }, -104, 20, 0.9},
    {"sin", plain<sin>, std::sin, -100, 100, 0.51},
    {"cos", plain<cos>, std::cos, -100, 100, 0.51},
    {"tan", plain<tan>, std::tan, -100, 100, 0.51},
    {"erf", plain<erf>, std::erf, -4.5, 4.5, 0.8},
    {"cbrt", plain<cbrt>, std::cbrt, -10, 10, 0.51},
    {"rsqrt", plain<rsqrt>, [](Long x) { return 1 / std::sqrt(x); }, 0, 10, 0.51},
    {"sinh", through_f64<f64::sinh>, std::sinh, -90, 90, 0.51},
    {"cosh", through_f64<f64::cosh>, std::cosh, -90, 90, 0.51},
    {"asinh", through_f64<f64::asinh>, std::asinh, -4, 4, 0.51},
    {"acosh", through_f64<f64::acosh>, std::acosh, 1, 4, 0.51},
    {"atanh", through_f64<f64::atanh>, std::atanh, -1, 1, 0.51},
    {"asin", through_f64<f64::asin>, std::asin, -1, 1, 0.51},
    {"acos", through_f64<f64::acos>, std::acos, -1, 1, 0.51},
    {"atan", through_f64<f64::atan>, std::atan, -5, 5, 0.51},
};

using Function64 = Function<double, Quad>;
const Function64 kFunctions64[] = {
    {"exp", plain64<f64::exp>, expq, -746, 710, 0.8},
    {"expm1", plain64<f64::expm1>, expm1q, -5, 5, 0.85},
    {"log", plain64<f64::log>, logq, 0, 4, 0.85},
    {"log1p", plain64<f64::log1p>, log1pq, -1, 4, 0.85},
    {"tanh", plain64<f64::tanh>, tanhq, -4, 4, 0.8},
    {"logistic", plain64<f64::logistic>, [](Quad x) { return 1 / (1 + expq(-x)); }, -40, 40, 0.8},
    {"sin", plain64<f64::sin>, sinq, -10, 10, 0.8},
    {"cos", plain64<f64::cos>, cosq, -10, 10, 0.8},
    {"tan", plain64<f64::tan>, tanq, -10, 10, 0.9},
    {"erf", plain64<f64::erf>, erfq, -6, 6, 0.9},
    {"cbrt", plain64<f64::cbrt>, cbrtq, -10, 10, 0.51},
    {"rsqrt", plain64<f64::rsqrt>, [](Quad x) { return 1 / sqrtq(x); }, 0, 10, 0.51},
    {"sinh", plain64<f64::sinh>, sinhq, -45, 45, 0.75},
    {"cosh", plain64<f64::cosh>, coshq, -45, 45, 0.7},
    {"asinh", plain64<f64::asinh>, asinhq, -4, 4, 0.85},
    {"acosh", plain64<f64::acosh>, acoshq, 1, 4, 0.85},
    {"atanh", plain64<f64::atanh>, atanhq, -1, 1, 0.85},
    {"asin", plain64<f64::asin>, asinq, -1, 1, 0.7},
    {"acos", plain64<f64::acos>, acosq, -1, 1, 0.7},
    {"atan", plain64<f64::atan>, atanq, -5, 5, 0.65},
};

template <typename Float, typename Wide>
WorstError worst_of(const Function<Float, Wide>& f, int count) {
  Source source;
  WorstError worst;
  const auto check = [&](double at) {
    const auto x = static_cast<Float>(at);
    worst.add(error_in_ulps(f.ours(x), f.exact(Wide{x})), x);
  };
  for (const double x : kSpecial) check(x);
  for (int i = 0; i < count; i += 3) {
    check(source.any(Float{}));
    check(source.in(f.low, f.high));
    check(source.spread());
  }
  return worst;
}

class MathFunction32 : public ::testing::TestWithParam<Function32> {};
TEST_P(MathFunction32, StaysWithinItsErrorBoundOverAllFloatsAndSpecialValues) {
  const WorstError worst = worst_of(GetParam(), 1'000'000);
  EXPECT_LE(worst.ulps, GetParam().bound) << GetParam().name << "(" << worst.x << ")";
  // The bound is not empty: no function is correctly rounded everywhere.
  EXPECT_GT(worst.ulps, 0.49);
}

class MathFunction64 : public ::testing::TestWithParam<Function64> {};
TEST_P(MathFunction64, StaysWithinItsErrorBoundOverAllDoublesAndSpecialValues) {
  const WorstError worst = worst_of(GetParam(), 100'000);
  EXPECT_LE(worst.ulps, GetParam().bound) << GetParam().name << "(" << worst.x << ")";
  EXPECT_GT(worst.ulps, 0.49);
}

const auto kName = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(All, MathFunction32, ::testing::ValuesIn(kFunctions32), kName);
INSTANTIATE_TEST_SUITE_P(All, MathFunction64, ::testing::ValuesIn(kFunctions64), kName);

float pow32(float x, float y) { return pow(ScalarF32{x}, ScalarF32{y}).value; }
float atan2_32(float y, float x) { return atan2(ScalarF32{y}, ScalarF32{x}).value; }
double pow64(double x, double y) { return f64::pow(ScalarF64{x}, ScalarF64{y}).value; }
double atan2_64(double y, double x) { return f64::atan2(ScalarF64{y}, ScalarF64{x}).value; }

template <typename Float, typename Wide>
struct Function2 {
  Float (*ours)(Float, Float);
  Wide (*exact)(Wide, Wide);
};

template <typename Float, typename Wide>
WorstError worst_of_pow(const Function2<Float, Wide>& f, int count) {
  Source source;
  WorstError worst;
  const auto check = [&](double at_x, double at_y) {
    const auto x = static_cast<Float>(at_x), y = static_cast<Float>(at_y);
    worst.add(error_in_ulps(f.ours(x, y), f.exact(Wide{x}, Wide{y})), x, y);
  };
  for (const double x : kSpecial) {
    for (const double y : kSpecial) check(x, y);
  }
  for (int i = 0; i < count; i += 5) {
    check(source.any(Float{}), source.any(Float{}));
    check(source.in(0, 20), source.in(-20, 20));
    check(source.in(-9, 9), std::nearbyint(source.in(-9, 9)));
    check(std::exp2(source.in(-120, 120)), source.in(-3, 3));
    // Near 1 with a large power, up to overflow and underflow.
    const double x = 1 + source.in(-0.5, 0.5) * std::exp2(source.in(-50, 0));
    const double most = sizeof(Float) == 4 ? 104 : 746;
    check(x, source.in(-most, most) / std::log(static_cast<double>(static_cast<Float>(x))));
  }
  return worst;
}

template <typename Float, typename Wide>
WorstError worst_of_atan2(const Function2<Float, Wide>& f, int count) {
  Source source;
  WorstError worst;
  const auto check = [&](double at_y, double at_x) {
    const auto y = static_cast<Float>(at_y), x = static_cast<Float>(at_x);
    worst.add(error_in_ulps(f.ours(y, x), f.exact(Wide{y}, Wide{x})), y, x);
  };
  for (const double y : kSpecial) {
    for (const double x : kSpecial) check(y, x);
  }
  for (int i = 0; i < count; i += 4) {
    check(source.any(Float{}), source.any(Float{}));
    check(source.in(-9, 9), source.in(-9, 9));
    const double x = source.any(Float{});
    check(x * source.in(-1, 1), x);
    check(x * source.spread(), x);
  }
  return worst;
}

TEST(Math, PowStaysWithinItsErrorBoundAndFollowsCAtSpecialValues) {
  const WorstError f32 = worst_of_pow<float, Long>({pow32, std::pow}, 1'000'000);
  EXPECT_LE(f32.ulps, 0.51) << f32.x << " ^ " << f32.y;
  const WorstError f64 = worst_of_pow<double, Quad>({pow64, powq}, 100'000);
  EXPECT_LE(f64.ulps, 0.8) << f64.x << " ^ " << f64.y;
}

TEST(Math, Atan2StaysWithinItsErrorBoundAndFollowsCAtSpecialValues) {
  const WorstError f32 = worst_of_atan2<float, Long>({atan2_32, std::atan2}, 1'000'000);
  EXPECT_LE(f32.ulps, 0.51) << "atan2(" << f32.x << ", " << f32.y << ")";
  const WorstError f64 = worst_of_atan2<double, Quad>({atan2_64, atan2q}, 100'000);
  EXPECT_LE(f64.ulps, 0.8) << "atan2(" << f64.x << ", " << f64.y << ")";
}

TEST(Math, PowAtSpecialValuesIsWhatTheTableOfCSays) {
  const double cases[][3] = {{0, 3, 0},
                             {-0.0, 3, -0.0},
                             {-0.0, 2, 0},
                             {0, -3, kInfinity},
                             {-0.0, -3, -kInfinity},
                             {-0.0, -2, kInfinity},
                             {-1, kInfinity, 1},
                             {-1, -kInfinity, 1},
                             {1, kNan, 1},
                             {kNan, 0, 1},
                             {0.5, kInfinity, 0},
                             {2, kInfinity, kInfinity},
                             {2, -kInfinity, 0},
                             {0.5, -kInfinity, kInfinity},
                             {kInfinity, 0.5, kInfinity},
                             {kInfinity, -1, 0},
                             {-kInfinity, 3, -kInfinity},
                             {-kInfinity, 2, kInfinity},
                             {-kInfinity, -3, -0.0},
                             {-2, 0.5, kNan},
                             {kNan, 1, kNan}};
  const auto same = [](double a, double b) {
    return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
  };
  for (const auto& [x, y, expected] : cases) {
    EXPECT_TRUE(same(pow64(x, y), expected)) << x << " ^ " << y;
    EXPECT_TRUE(same(pow32(static_cast<float>(x), static_cast<float>(y)), expected))
        << x << " ^ " << y;
  }
}

// f is +0 at x and everywhere below, and more than that right above it.
template <typename Float>
void expect_zero_up_to(Float x, Float (*f)(Float)) {
  const auto bits = [&](Float at) {
    return std::bit_cast<std::conditional_t<sizeof(Float) == 4, std::uint32_t, std::uint64_t>>(
        f(at));
  };
  constexpr Float kLowest = std::numeric_limits<Float>::lowest();
  EXPECT_GT(f(std::nextafter(x, Float{0})), 0) << x;
  for (const Float at : {x, std::nextafter(x, kLowest), Float{-1e9}, kLowest,
                         -std::numeric_limits<Float>::infinity()}) {
    EXPECT_EQ(bits(at), 0u) << at;
  }
  for (int i = 0; i < 4000; ++i) {
    const Float at = x - static_cast<Float>(i) * Float{0.125f};
    EXPECT_EQ(bits(at), 0u) << at;
  }
  // Where the functions stop looking at the argument.
  for (const Float edge : {Float{-104}, Float{-746}, Float{-746.5f}}) {
    for (const Float at : {edge, std::nextafter(edge, Float{0}), std::nextafter(edge, kLowest)}) {
      if (at <= x) EXPECT_EQ(bits(at), 0u) << at;
    }
  }
}

TEST(Math, ExponentialsArePlusZeroFromWhereTheyRoundToItDownToMinusInfinity) {
  expect_zero_up_to<float>(-0x1.9fe36ap+6f, plain<exp>);
  expect_zero_up_to<float>(-0x1.9e8086p+6f, plain<logistic>);
  expect_zero_up_to<double>(-0x1.74910d52d3052p+9, plain64<f64::exp>);
  expect_zero_up_to<double>(-0x1.74910d52d3052p+9, plain64<f64::logistic>);
}

template <typename Float, typename F>
double largest_step_down(F f, double at) {
  double largest = 0;
  Float x = static_cast<Float>(at * (1 - 400 * std::numeric_limits<Float>::epsilon()));
  Float before = f(x);
  for (int i = 0; i < 800; ++i) {
    x = std::nextafter(x, Float{2});
    const Float y = f(x);
    largest =
        std::max(largest, static_cast<double>(before - y) / std::numeric_limits<Float>::epsilon());
    before = y;
  }
  return largest;
}

TEST(Math, MonotonicFunctionsStepDownByNoMoreThanOneUlpWherePiecesMeet) {
  EXPECT_LE(largest_step_down<float>(plain<tanh>, 1.0), 0.5);
  EXPECT_LE(largest_step_down<float>(plain<erf>, 1.05), 0.5);
  EXPECT_LE(largest_step_down<double>(plain64<f64::erf>, 1.125), 0.5);
}

}  // namespace
}  // namespace plimsoll::math
