// SPDX-License-Identifier: Apache-2.0
// math_errors [FUNCTION]...: the largest error of f32 functions over all 2^32 arguments, one line
// each as a row of docs/numerics.md. Against the C library's f64 functions, whose own error is
// below 2^-28 of what is measured.
#include <cstdio>
#include <string_view>
#include <vector>

#include "runtime/base/math/transcendental.h"
#include "tests/base/exact_math.h"

namespace plimsoll::math {
namespace {

struct Function {
  const char* name;
  ScalarF32 (*ours)(const ScalarF32&);
  double (*exact)(double);
};

const Function kFunctions[] = {
    {"exp", exp<ScalarF32>, std::exp},
    {"expm1", expm1<ScalarF32>, std::expm1},
    {"log", log<ScalarF32>, std::log},
    {"log1p", log1p<ScalarF32>, std::log1p},
    {"tanh", tanh<ScalarF32>, std::tanh},
    {"logistic", logistic<ScalarF32>, [](double x) { return 1 / (1 + std::exp(-x)); }},
    {"sin", sin<ScalarF32>, std::sin},
    {"cos", cos<ScalarF32>, std::cos},
    {"tan", tan<ScalarF32>, std::tan},
    {"erf", erf<ScalarF32>, std::erf},
    {"cbrt", cbrt<ScalarF32>, std::cbrt},
    {"rsqrt", rsqrt<ScalarF32>, [](double x) { return 1 / std::sqrt(x); }},
};

// Distance in ulps; the quick way where both are normal and finite.
double error_of(float actual, double exact) {
  const double magnitude = std::fabs(exact);
  if (!(magnitude >= 0x1p-126 && magnitude < 0x1p127) || !(std::fabs(actual) < 0x1p127f)) {
    return testing::error_in_ulps(actual, static_cast<long double>(exact));
  }
  const auto exponent = std::bit_cast<std::uint64_t>(magnitude) & 0x7ff0000000000000;
  const double ulp = std::bit_cast<double>(exponent - (std::uint64_t{23} << 52));
  return std::fabs(actual - exact) / ulp;
}

void measure(const Function& function) {
  testing::WorstError worst;
  std::uint64_t bits = 0;
  do {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    worst.add(error_of(function.ours({x}).value, function.exact(x)), x);
  } while (++bits < std::uint64_t{1} << 32);
  std::printf("| %s | %.4f | %.9g (%a) | %llu |\n", function.name, worst.ulps, worst.x, worst.x,
              static_cast<unsigned long long>(bits));
  std::fflush(stdout);
}

}  // namespace
}  // namespace plimsoll::math

int main(int argc, char** argv) {
  using namespace plimsoll::math;
  std::vector<std::string_view> names(argv + 1, argv + argc);
  std::size_t found = 0;
  for (const Function& function : kFunctions) {
    bool wanted = names.empty();
    for (const std::string_view name : names) wanted = wanted || name == function.name;
    if (!wanted) continue;
    ++found;
    measure(function);
  }
  if (found >= names.size()) return 0;
  std::fprintf(stderr,
               "math_errors: not every name is known (exp expm1 log log1p tanh logistic sin cos "
               "tan erf cbrt rsqrt)\n");
  return 2;
}
