// SPDX-License-Identifier: Apache-2.0
// Attention through the whole stack: near the interpreter, and the same bits at every limit.
#include "runtime/ir/fusions/attention.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/text/text.h"
#include "runtime/passes/passes.h"
#include "tests/cases/compare.h"
#include "tests/executor/limit_check.h"
#include "tests/executor/test_provider.h"

namespace plimsoll {
namespace {

// Three rounds of x = x + attention(x, x, x), each of which also keeps what it saw.
const char* const kLoop = R"(HloModule m
max { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] maximum(a, b) }
sum { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] add(a, b) }
condition { s = (s32[], f32[2,96,16], f32[3,2,96,16]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 n = s32[] constant(3)
 ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[2,96,16], f32[3,2,96,16]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 x = f32[2,96,16] get-tuple-element(s), index=1
 stack = f32[3,2,96,16] get-tuple-element(s), index=2
 products = f32[2,96,96] dot(x, x), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
 lowest = f32[] constant(-inf)
 m = f32[2,96] reduce(products, lowest), dimensions={2}, to_apply=max
 ms = f32[2,96,96] broadcast(m), dimensions={0,1}
 shifted = f32[2,96,96] subtract(products, ms)
 powers = f32[2,96,96] exponential(shifted)
 zero = f32[] constant(0)
 l = f32[2,96] reduce(powers, zero), dimensions={2}, to_apply=sum
 ls = f32[2,96,96] broadcast(l), dimensions={0,1}
 p = f32[2,96,96] divide(powers, ls)
 o = f32[2,96,16] dot(p, x), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
 y = f32[2,96,16] add(x, o)
 slice = f32[1,2,96,16] reshape(x)
 none = s32[] constant(0)
 next_stack = f32[3,2,96,16] dynamic-update-slice(stack, slice, i, none, none, none)
 one = s32[] constant(1)
 j = s32[] add(i, one)
 ROOT r = (s32[], f32[2,96,16], f32[3,2,96,16]) tuple(j, y, next_stack) }
ENTRY e { x = f32[2,96,16] parameter(0)
 i = s32[] constant(0)
 zero = f32[] constant(0)
 stack = f32[3,2,96,16] broadcast(zero), dimensions={}
 s = (s32[], f32[2,96,16], f32[3,2,96,16]) tuple(i, x, stack)
 w = (s32[], f32[2,96,16], f32[3,2,96,16]) while(s), condition=condition, body=body
 y = f32[2,96,16] get-tuple-element(w), index=1
 t = f32[3,2,96,16] get-tuple-element(w), index=2
 ROOT r = (f32[2,96,16], f32[3,2,96,16]) tuple(y, t) }
)";

int attentions(const ir::Module& module) {
  int count = 0;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      if (ir::read_attention(*instruction).has_value()) ++count;
    }
  }
  return count;
}

void check(const std::string& text, int wanted, double tolerance) {
  auto provider = create_provider();
  ASSERT_TRUE(provider.ok()) << provider.status().to_string();
  const auto module = ir::parse_module(text);
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const auto optimized = (*module)->clone();
  ASSERT_TRUE(passes::optimize(*optimized).ok());
  EXPECT_EQ(attentions(*optimized), wanted) << ir::to_text(*optimized);
  const auto arguments = cases::random_arguments(**module, 3);
  const auto expected = ir::interpret(**module, arguments);
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  std::string error;
  const ir::Literal result = testing::run_unlimited(**module, arguments, **provider, true, error);
  ASSERT_EQ(error, "");
  EXPECT_EQ(cases::compare_close(*expected, result, tolerance), "");
  EXPECT_EQ(testing::check_limits(**module, arguments, **provider, 1, 2), "");
}

TEST(Attention, StepHasTheSameBitsAtEveryLimit) {
  std::ifstream file(PLIMSOLL_SOURCE_DIR "/tests/passes/attention_step.hlo");
  check(std::string(std::istreambuf_iterator<char>(file), {}), 2, 1e-5);
}

TEST(Attention, LoopBodyHasTheSameBitsAtEveryLimit) { check(kLoop, 1, 1e-4); }

}  // namespace
}  // namespace plimsoll
