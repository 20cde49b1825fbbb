// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "runtime/base/float16.h"
#include "runtime/base/math/bfloat16.h"
#include "runtime/base/math/float16.h"
#include "runtime/base/math/transcendental.h"

namespace plimsoll::math {
namespace {

struct SmallFunction {
  const char* name;
  ScalarF32 (*full)(const ScalarF32&);
  ScalarF32 (*of_bf16)(const ScalarF32&);
  ScalarF32 (*of_f16)(const ScalarF32&);
};
const SmallFunction kSmallFunctions[] = {
    {"exp", exp, bf16::exp, f16::exp},
    {"tanh", tanh, bf16::tanh, f16::tanh},
    {"logistic", logistic, bf16::logistic, f16::logistic},
    {"erf", erf, bf16::erf, f16::erf},
    {"log", log, bf16::log, f16::log},
};

bool is_nan(Bfloat16 x) { return (x.bits & 0x7fff) > 0x7f80; }
bool is_nan(Float16 x) { return (x.bits & 0x7fff) > 0x7c00; }

// Of all 65,536 numbers.
template <typename Small>
int count_of_wrong(ScalarF32 (*full)(const ScalarF32&), ScalarF32 (*small)(const ScalarF32&)) {
  int wrong = 0;
  for (int bits = 0; bits < 1 << 16; ++bits) {
    Small x;
    x.bits = static_cast<std::uint16_t>(bits);
    const ScalarF32 wide{static_cast<float>(x)};
    const Small expected(full(wide).value), result(small(wide).value);
    const bool same =
        is_nan(expected) ? is_nan(result) : expected.bits == result.bits && !is_nan(result);
    if (!same) ++wrong;
  }
  return wrong;
}

TEST(SmallMath, RoundsAsTheFunctionsOfF32Do) {
  for (const SmallFunction& f : kSmallFunctions) {
    EXPECT_EQ(count_of_wrong<Bfloat16>(f.full, f.of_bf16), 0) << f.name << " of bf16";
    EXPECT_EQ(count_of_wrong<Float16>(f.full, f.of_f16), 0) << f.name << " of f16";
  }
}

TEST(SmallMath, NeedsTheFunctionOfTheFormat) {
  // A function of bf16 numbers is too rough for f16, so that the test above can fail.
  for (const SmallFunction& f : kSmallFunctions) {
    EXPECT_GT(count_of_wrong<Float16>(f.full, f.of_bf16), 0) << f.name;
  }
}

}  // namespace
}  // namespace plimsoll::math
