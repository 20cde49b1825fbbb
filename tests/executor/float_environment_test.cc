// SPDX-License-Identifier: Apache-2.0
// Bits do not depend on the modes that the caller's thread computes with floats in.
#include "runtime/base/float_environment.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <thread>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "runtime/device/cpu/parallel.h"
#include "runtime/executor/executable.h"
#include "runtime/executor/host_run.h"
#include "runtime/ir/text/text.h"
#include "runtime/planner/residency.h"
#include "tests/executor/test_provider.h"

namespace plimsoll::executor {
namespace {

// Subnormal numbers of f16 and f32, a quotient that rounds, a product of matrices, a constant to be
// folded; more elements than one piece of work has.
constexpr const char* kModes = R"(HloModule modes
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[300,300] parameter(0)
  h = f16[300,300] parameter(1)
  tiny = f32[] constant(1e-39)
  half = f32[] constant(0.5)
  folded = f32[] multiply(tiny, half)
  small = f32[300,300] broadcast(folded), dimensions={}
  sum = f32[300,300] add(x, small)
  wide = f32[300,300] convert(h)
  three = f32[] constant(3)
  threes = f32[300,300] broadcast(three), dimensions={}
  third = f32[300,300] divide(wide, threes)
  narrow = f16[300,300] convert(third)
  product = f32[300,300] dot(x, third), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = f32[] constant(0)
  total = f32[300] reduce(sum, zero), dimensions={1}, to_apply=add
  ROOT t = (f32[300,300], f16[300,300], f32[300,300], f32[300]) tuple(sum, narrow, product, total)
})";

std::vector<ir::Literal> arguments_of_modes() {
  ir::Literal x(ir::Shape(ir::DType::f32, {300, 300})), h(ir::Shape(ir::DType::f16, {300, 300}));
  for (std::int64_t i = 0; i < 90'000; ++i) {
    x.set(i, static_cast<double>(i % 7) * 1e-39);
    h.set(i, static_cast<double>(i % 11) * 1e-6);
  }
  return {std::move(x), std::move(h)};
}

Result<ir::Literal> run_modes(const std::vector<ir::Literal>& arguments) {
  PLIMSOLL_ASSIGN_OR_RETURN(auto module, ir::parse_module(kModes));
  const planner::Question question{planner::kUnlimited, planner::default_residency(*module), {}};
  PLIMSOLL_ASSIGN_OR_RETURN(auto program, Program::create(std::move(module), provider(), {}));
  const auto budget = memory::Budget::create(device::default_device(), 64 << 20);
  PLIMSOLL_ASSIGN_OR_RETURN(const auto executable, make_executable(program, {}, question, *budget));
  return run_on_host(*executable, *budget, arguments);
}

// In a thread of its own, whose modes `set` changes before anything runs there.
template <typename Set>
Result<ir::Literal> run_in(const Set& set) {
  const auto arguments = arguments_of_modes();
  Result<ir::Literal> result = internal_error("did not run");
  std::thread([&] {
    set();
    result = run_modes(arguments);
  }).join();
  return result;
}

TEST(FloatEnvironment, BitsAreThoseOfAnyCaller) {
  const auto expected = run_in([] {});
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  EXPECT_NE(expected->elements()[0].at(0), 0);  // a subnormal number
  const auto upward = run_in([] { std::fesetround(FE_UPWARD); });
  ASSERT_TRUE(upward.ok()) << upward.status().to_string();
  EXPECT_EQ(*expected, *upward);
#if defined(__x86_64__)
  constexpr unsigned kFlush = 0x8040, kTrap = 0x1d00;
  const auto flushed = run_in([] { _mm_setcsr(_mm_getcsr() | kFlush); });
  ASSERT_TRUE(flushed.ok()) << flushed.status().to_string();
  EXPECT_EQ(*expected, *flushed);
  const auto trapped = run_in([] { _mm_setcsr(_mm_getcsr() & ~kTrap); });
  ASSERT_TRUE(trapped.ok()) << trapped.status().to_string();
  EXPECT_EQ(*expected, *trapped);
#endif
}

TEST(FloatEnvironment, TheCallersModesAreBackAfterwards) {
  const auto arguments = arguments_of_modes();
  std::thread([&] {
    std::fesetround(FE_DOWNWARD);
    volatile double zero = 0;
    volatile double quotient = 1 / zero;  // a flag of the caller's
    static_cast<void>(quotient);
    EXPECT_TRUE(run_modes(arguments).ok());
    device::parallel_for(1000, 1, [](std::int64_t, std::int64_t) {
      volatile float one = 1, most_of_a_step = 0x1.8p-24F;
      EXPECT_EQ(one + most_of_a_step, 0x1.000002p0F);  // 1 where it is rounded down
    });
    EXPECT_EQ(std::fegetround(), FE_DOWNWARD);
    EXPECT_NE(std::fetestexcept(FE_DIVBYZERO), 0);
  }).join();
}

}  // namespace
}  // namespace plimsoll::executor
