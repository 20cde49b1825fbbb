// SPDX-License-Identifier: Apache-2.0
// Whole programs through passes, planner and executor, against the reference interpreter.
#include <gtest/gtest.h>

#include <vector>

#include "runtime/device/devices.h"
#include "runtime/executor/executable.h"
#include "runtime/executor/host_run.h"
#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/text/text.h"
#include "tests/executor/limit_check.h"
#include "tests/executor/test_provider.h"

namespace plimsoll {
namespace {

struct Case {
  const char* name;
  const char* text;
};

// Every result here is exact in f32, so the comparison with the interpreter is by bits.
const Case kCases[] = {
    {"WhileCountsAndSwaps", R"(
HloModule while_swap
cond { p = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5)
  ROOT lt = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[4] get-tuple-element(p), index=1
  b = f32[4] get-tuple-element(p), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT t = (s32[], f32[4], f32[4]) tuple(next, b, a) }
ENTRY main { x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  zero = s32[] constant(0)
  init = (s32[], f32[4], f32[4]) tuple(zero, x, y)
  w = (s32[], f32[4], f32[4]) while(init), condition=cond, body=body
  a = f32[4] get-tuple-element(w), index=1
  b = f32[4] get-tuple-element(w), index=2
  ROOT r = f32[4] subtract(a, b) })"},
    {"WhileThatNeverRuns", R"(
HloModule never
cond { p = (s32[], f32[4]) parameter(0)
  ROOT f = pred[] constant(false) }
body { p = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[4] get-tuple-element(p), index=1
  d = f32[4] add(a, a)
  ROOT t = (s32[], f32[4]) tuple(i, d) }
ENTRY main { x = f32[4] parameter(0)
  zero = s32[] constant(0)
  init = (s32[], f32[4]) tuple(zero, x)
  w = (s32[], f32[4]) while(init), condition=cond, body=body
  ROOT r = f32[4] get-tuple-element(w), index=1 })"},
    {"NestedWhileKeepsTheOuterStateAndTheOldInput", R"(
HloModule nested
icond { p = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT lt = pred[] compare(i, n), direction=LT }
ibody { p = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[8] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  d = f32[8] add(a, a)
  ROOT t = (s32[], f32[8]) tuple(j, d) }
ocond { p = (s32[], f32[8], f32[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(2)
  ROOT lt = pred[] compare(i, n), direction=LT }
obody { p = (s32[], f32[8], f32[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[8] get-tuple-element(p), index=1
  s = f32[8] get-tuple-element(p), index=2
  zero = s32[] constant(0)
  init = (s32[], f32[8]) tuple(zero, a)
  w = (s32[], f32[8]) while(init), condition=icond, body=ibody
  d = f32[8] get-tuple-element(w), index=1
  sum = f32[8] add(s, a)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[8], f32[8]) tuple(j, d, sum) }
ENTRY main { x = f32[8] parameter(0)
  zero = s32[] constant(0)
  z = f32[] constant(0)
  zeros = f32[8] broadcast(z), dimensions={}
  init = (s32[], f32[8], f32[8]) tuple(zero, x, zeros)
  w = (s32[], f32[8], f32[8]) while(init), condition=ocond, body=obody
  a = f32[8] get-tuple-element(w), index=1
  s = f32[8] get-tuple-element(w), index=2
  ROOT r = (f32[8], f32[8], f32[8]) tuple(a, s, x) })"},
    {"ConditionalTakesBothBranches", R"(
HloModule cond
yes { p = f32[4] parameter(0)
  ROOT n = f32[4] negate(p) }
no { p = (f32[4], f32[]) parameter(0)
  v = f32[4] get-tuple-element(p), index=0
  s = f32[] get-tuple-element(p), index=1
  b = f32[4] broadcast(s), dimensions={}
  ROOT m = f32[4] multiply(v, b) }
ENTRY main { x = f32[4] parameter(0)
  zero = f32[] constant(0)
  two = f32[] constant(2)
  e = f32[1] slice(x), slice={[0:1]}
  first = f32[] reshape(e)
  p = pred[] compare(first, zero), direction=GT
  q = pred[] not(p)
  t = (f32[4], f32[]) tuple(x, two)
  a = f32[4] conditional(p, x, t), true_computation=yes, false_computation=no
  b = f32[4] conditional(q, x, t), true_computation=yes, false_computation=no
  ROOT r = (f32[4], f32[4]) tuple(a, b) })"},
    {"IndexedConditionalClampsToTheLastBranch", R"(
HloModule switch
b0 { p = f32[4] parameter(0)
  ROOT n = f32[4] negate(p) }
b1 { p = f32[4] parameter(0)
  ROOT n = f32[4] add(p, p) }
b2 { p = f32[4] parameter(0)
  ROOT n = f32[4] multiply(p, p) }
ENTRY main { x = f32[4] parameter(0)
  i1 = s32[] constant(1)
  i9 = s32[] constant(9)
  im = s32[] constant(-1)
  a = f32[4] conditional(i1, x, x, x), branch_computations={b0, b1, b2}
  b = f32[4] conditional(i9, x, x, x), branch_computations={b0, b1, b2}
  c = f32[4] conditional(im, x, x, x), branch_computations={b0, b1, b2}
  ROOT r = (f32[4], f32[4], f32[4]) tuple(a, b, c) })"},
    {"BranchesHandOnSwapUpdateAndReplaceTheStateOfALoop", R"(
HloModule branches
less { p = (s32[], f32[8,4], f32[8,4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(9)
  ROOT lt = pred[] compare(i, n), direction=LT }
same { ROOT p = (f32[8,4], f32[8,4]) parameter(0) }
swapped { p = (f32[8,4], f32[8,4]) parameter(0)
  a = f32[8,4] get-tuple-element(p), index=0
  b = f32[8,4] get-tuple-element(p), index=1
  ROOT t = (f32[8,4], f32[8,4]) tuple(b, a) }
updated { p = (f32[8,4], f32[8,4]) parameter(0)
  a = f32[8,4] get-tuple-element(p), index=0
  b = f32[8,4] get-tuple-element(p), index=1
  row = f32[1,4] slice(b), slice={[2:3], [0:4]}
  more = f32[1,4] add(row, row)
  three = s32[] constant(3)
  zero = s32[] constant(0)
  c = f32[8,4] dynamic-update-slice(a, more, three, zero)
  d = f32[8,4] reverse(b), dimensions={0}
  ROOT t = (f32[8,4], f32[8,4]) tuple(c, d) }
replaced { p = (f32[8,4], f32[8,4]) parameter(0)
  a = f32[8,4] get-tuple-element(p), index=0
  b = f32[8,4] get-tuple-element(p), index=1
  sum = f32[8,4] add(a, b)
  c = f32[8,4] reverse(sum), dimensions={1}
  k = f32[] constant(2)
  ks = f32[8,4] broadcast(k), dimensions={}
  ROOT t = (f32[8,4], f32[8,4]) tuple(ks, c) }
body { p = (s32[], f32[8,4], f32[8,4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[8,4] get-tuple-element(p), index=1
  b = f32[8,4] get-tuple-element(p), index=2
  s = (f32[8,4], f32[8,4]) tuple(a, b)
  five = s32[] constant(5)
  k = s32[] remainder(i, five)
  c = (f32[8,4], f32[8,4]) conditional(k, s, s, s, s, s), branch_computations={updated, same, swapped, updated, replaced}
  d = f32[8,4] get-tuple-element(c), index=0
  e = f32[8,4] get-tuple-element(c), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT t = (s32[], f32[8,4], f32[8,4]) tuple(next, d, e) }
ENTRY main { x = f32[8,4] parameter(0)
  y = f32[8,4] parameter(1)
  zero = s32[] constant(0)
  init = (s32[], f32[8,4], f32[8,4]) tuple(zero, x, y)
  ROOT w = (s32[], f32[8,4], f32[8,4]) while(init), condition=less, body=body })"},
    {"ABranchMayReadWhatTheOtherUpdatesAsAnotherArgument", R"(
HloModule arguments
updated { p = (f32[8,4], f32[1,4]) parameter(0)
  a = f32[8,4] get-tuple-element(p), index=0
  row = f32[1,4] get-tuple-element(p), index=1
  three = s32[] constant(3)
  zero = s32[] constant(0)
  ROOT c = f32[8,4] dynamic-update-slice(a, row, three, zero) }
turned { p = (f32[1,4], f32[8,4]) parameter(0)
  b = f32[8,4] get-tuple-element(p), index=1
  ROOT c = f32[8,4] reverse(b), dimensions={0} }
none { row = f32[1,4] parameter(0)
  one = f32[4] reshape(row)
  ROOT all = f32[8,4] broadcast(one), dimensions={1} }
ENTRY main { x = f32[8,4] parameter(0)
  row = f32[1,4] parameter(1)
  kept = f32[8,4] reverse(x), dimensions={1}
  given = f32[8,4] reverse(x), dimensions={0}
  first = (f32[8,4], f32[1,4]) tuple(given, row)
  second = (f32[1,4], f32[8,4]) tuple(row, given)
  third = (f32[8,4], f32[1,4]) tuple(kept, row)
  fourth = (f32[1,4], f32[8,4]) tuple(row, kept)
  zero = s32[] constant(0)
  one = s32[] constant(1)
  two = s32[] constant(2)
  a = f32[8,4] conditional(zero, first, second, row), branch_computations={updated, turned, none}
  b = f32[8,4] conditional(one, third, fourth, row), branch_computations={updated, turned, none}
  c = f32[8,4] conditional(two, third, fourth, row), branch_computations={updated, turned, none}
  ROOT r = (f32[8,4], f32[8,4], f32[8,4], f32[8,4]) tuple(a, b, c, kept) })"},
    {"CallsPassTuplesThrough", R"(
HloModule calls
f { p = (f32[4], f32[4]) parameter(0)
  a = f32[4] get-tuple-element(p), index=0
  b = f32[4] get-tuple-element(p), index=1
  s = f32[4] add(a, b)
  ROOT t = (f32[4], (f32[4], f32[4])) tuple(s, p) }
ENTRY main { x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  t = (f32[4], f32[4]) tuple(x, y)
  ROOT c = (f32[4], (f32[4], f32[4])) call(t), to_apply=f })"},
    {"ResultsMayRepeatParametersAndConstants", R"(
HloModule repeat
ENTRY main { x = f32[4] parameter(0)
  y = (f32[4], s32[2]) parameter(1)
  c = s32[2] constant({7, -3})
  n = f32[4] negate(x)
  v = f32[4] get-tuple-element(y), index=0
  ROOT r = (f32[4], f32[4], f32[4], s32[2], f32[4]) tuple(n, x, n, c, v) })"},
    {"ADonatedParameterBecomesTheResult", R"(
HloModule donate, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY main { x = f32[1024] parameter(0)
  y = f32[1024] parameter(1)
  d = f32[1024] add(x, y)
  m = f32[1024] multiply(x, y)
  ROOT r = (f32[1024], f32[1024]) tuple(d, m) })"},
    {"SwappedDonationsDoNotTrample", R"(
HloModule swap_donate, input_output_alias={ {0}: (1, {}, may-alias), {1}: (0, {}, may-alias) }
ENTRY main { x = f32[64] parameter(0)
  y = f32[64] parameter(1)
  ROOT r = (f32[64], f32[64]) tuple(x, y) })"},
    {"DynamicUpdateSliceInALoopFillsAStack", R"(
HloModule stack
cond { p = (s32[], f32[5,3], f32[3]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5)
  ROOT lt = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[5,3], f32[3]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  s = f32[5,3] get-tuple-element(p), index=1
  v = f32[3] get-tuple-element(p), index=2
  zero = s32[] constant(0)
  row = f32[1,3] reshape(v)
  u = f32[5,3] dynamic-update-slice(s, row, i, zero)
  d = f32[3] add(v, v)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[5,3], f32[3]) tuple(j, u, d) }
ENTRY main { x = f32[3] parameter(0)
  zero = s32[] constant(0)
  z = f32[] constant(0)
  zeros = f32[5,3] broadcast(z), dimensions={}
  init = (s32[], f32[5,3], f32[3]) tuple(zero, zeros, x)
  w = (s32[], f32[5,3], f32[3]) while(init), condition=cond, body=body
  ROOT r = f32[5,3] get-tuple-element(w), index=1 })"},
    {"ScalarsThatAreComparedByTheirBits", R"(
HloModule bits
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] bitcast(a)
  d = s32[] bitcast(b)
  ROOT lt = pred[] compare(c, d), direction=GT }
least { a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] bitcast(a)
  d = s32[] bitcast(b)
  m = s32[] minimum(c, d)
  ROOT r = f32[] bitcast(m) }
bits { a = f32[] parameter(0)
  c = s32[] bitcast(a)
  ROOT n = s32[] negate(c) }
ENTRY main { x = f32[16,8] parameter(0)
  y = f32[16,8] sort(x), dimensions={1}, to_apply=less
  z = f32[] constant(0)
  r = f32[16] reduce(x, z), dimensions={1}, to_apply=least
  i = s32[3,1] constant({{1},{2},{1}})
  u = f32[3,8] slice(y), slice={[0:3],[0:8]}
  s = f32[16,8] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=least
  w = f32[8,8] reduce-window(x, z), window={size=2x1 stride=2x1}, to_apply=least
  m = s32[16,8] map(x), dimensions={0,1}, to_apply=bits
  ROOT t = (f32[16,8], f32[16], f32[16,8], f32[8,8], s32[16,8]) tuple(y, r, s, w, m) })"},
    {"ReducesOfSeveralResultsWithinFusions", R"(
HloModule argmax, is_scheduled=true
larger { v = f32[] parameter(0)
  i = s32[] parameter(1)
  w = f32[] parameter(2)
  j = s32[] parameter(3)
  more = pred[] compare(v, w), direction=GT
  x = f32[] select(more, v, w)
  k = s32[] select(more, i, j)
  ROOT both = (f32[], s32[]) tuple(x, k) }
rows { x = f32[6,5] parameter(0)
  n = f32[6,5] negate(x)
  i = s32[6,5] iota(), iota_dimension=1
  l = f32[] constant(-inf)
  z = s32[] constant(0)
  ROOT r = (f32[6], s32[6]) reduce(n, i, l, z), dimensions={1}, to_apply=larger }
columns { x = f32[6,5] parameter(0)
  i = s32[6,5] iota(), iota_dimension=0
  l = f32[] constant(-inf)
  z = s32[] constant(0)
  r = (f32[5], s32[5]) reduce(x, i, l, z), dimensions={0}, to_apply=larger
  k = s32[5] get-tuple-element(r), index=1
  ROOT n = s32[5] negate(k) }
all { x = f32[6,5] parameter(0)
  t = f32[5,6] transpose(x), dimensions={1,0}
  i = s32[5,6] iota(), iota_dimension=1
  l = f32[] constant(-inf)
  z = s32[] constant(0)
  r = (f32[], s32[]) reduce(t, i, l, z), dimensions={0,1}, to_apply=larger
  v = f32[] get-tuple-element(r), index=0
  k = s32[] get-tuple-element(r), index=1
  c = f32[] convert(k)
  ROOT s = f32[] add(v, c) }
ENTRY main { x = f32[6,5] parameter(0)
  a = (f32[6], s32[6]) fusion(x), kind=kLoop, calls=rows
  b = f32[6] get-tuple-element(a), index=0
  c = s32[6] get-tuple-element(a), index=1
  d = s32[5] fusion(x), kind=kInput, calls=columns
  e = f32[] fusion(x), kind=kInput, calls=all
  ROOT t = (f32[6], s32[6], s32[5], f32[]) tuple(b, c, d, e) })"},
};

ir::Literal counted(const ir::Shape& shape, double& next) {
  ir::Literal literal(shape);
  if (shape.is_tuple()) {
    for (ir::Literal& element : literal.mutable_elements())
      element = counted(element.shape(), next);
    return literal;
  }
  for (std::int64_t i = 0; i < shape.element_count(); ++i) literal.set(i, next++);
  return literal;
}

class ControlFlow : public ::testing::TestWithParam<Case> {};

TEST_P(ControlFlow, GivesTheInterpretersBitsAtEveryLimit) {
  auto module = ir::parse_module(GetParam().text);
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  std::vector<ir::Literal> arguments;
  double next = 1;
  for (const ir::Instruction* parameter : (*module)->entry()->parameters()) {
    arguments.push_back(counted(parameter->shape(), next));
  }
  const auto expected = ir::interpret(**module, arguments);
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  for (const bool optimize : {false, true}) {
    std::string error;
    const ir::Literal result =
        testing::run_unlimited(**module, arguments, provider(), optimize, error);
    ASSERT_EQ(error, "");
    EXPECT_TRUE(result == *expected) << (optimize ? "optimized" : "as written");
  }
  EXPECT_EQ(testing::check_limits(**module, arguments, provider(), 7, 3), "");
}

INSTANTIATE_TEST_SUITE_P(Programs, ControlFlow, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(Executable, AnElidedConstantIsAnErrorThatNamesIt) {
  auto module = ir::parse_module(
      "ENTRY main { c = f32[64] constant({...})\n x = f32[64] parameter(0)\n"
      "  ROOT r = f32[64] add(x, c) }");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  auto program = executor::Program::create(std::move(module).value(), provider(), false);
  ASSERT_TRUE(program.ok()) << program.status().to_string();
  const auto budget = memory::Budget::create(device::default_device(), planner::kUnlimited);
  const auto executable = executor::make_executable(*program, {}, {}, *budget);
  ASSERT_FALSE(executable.ok());
  EXPECT_EQ(executable.status().code(), StatusCode::failed_precondition);
  EXPECT_NE(executable.status().message().find("'c'"), std::string::npos);
  EXPECT_NE(executable.status().message().find("as_hlo_text(True)"), std::string::npos);
}

TEST(Executable, AnArgumentOfAnotherShapeIsRefused) {
  auto module =
      ir::parse_module("ENTRY main { x = f32[4] parameter(0)\n ROOT r = f32[4] negate(x) }");
  ASSERT_TRUE(module.ok());
  auto program = executor::Program::create(std::move(module).value(), provider(), {});
  ASSERT_TRUE(program.ok()) << program.status().to_string();
  const auto budget = memory::Budget::create(device::default_device(), planner::kUnlimited);
  const auto executable = executor::make_executable(*program, {}, {}, *budget);
  ASSERT_TRUE(executable.ok()) << executable.status().to_string();
  const ir::Literal wrong(ir::Shape(ir::DType::f32, {5}));
  const auto result = executor::run_on_host(**executable, *budget, std::span(&wrong, 1));
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find("f32[5]"), std::string::npos);
  EXPECT_EQ(budget->statistics().used_bytes, 0);
}

TEST(Executable, EveryFailedAllocationIsAnErrorAndTheNextRunIsRight) {
  auto module = ir::parse_module(
      "ENTRY main { x = f32[1000] parameter(0)\n e = f32[1000] exponential(x)\n"
      "  s = f32[1000] sort(e), dimensions={0}, to_apply={ a = f32[] parameter(0)\n"
      "  b = f32[] parameter(1)\n ROOT l = pred[] compare(a, b), direction=LT }\n"
      "  ROOT r = (f32[1000], f32[1000]) tuple(e, s) }");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  auto program = executor::Program::create(std::move(module).value(), provider(), {});
  ASSERT_TRUE(program.ok()) << program.status().to_string();
  const auto budget = memory::Budget::create(device::default_device(), planner::kUnlimited);
  const auto executable = executor::make_executable(*program, {}, {}, *budget);
  ASSERT_TRUE(executable.ok()) << executable.status().to_string();
  ir::Literal x(ir::Shape(ir::DType::f32, {1000}));
  for (std::int64_t i = 0; i < 1000; ++i) x.set(i, static_cast<double>((i * 37) % 101) / 50 - 1);
  const auto expected = executor::run_on_host(**executable, *budget, std::span(&x, 1));
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  int failures = 0;
  for (std::int64_t n = 1;; ++n) {
    budget->fail_allocation(n);
    const auto result = executor::run_on_host(**executable, *budget, std::span(&x, 1));
    budget->fail_allocation(0);
    EXPECT_EQ(budget->statistics().used_bytes, 0);
    if (result.ok()) break;
    ++failures;
    EXPECT_EQ(result.status().code(), StatusCode::resource_exhausted);
    const auto again = executor::run_on_host(**executable, *budget, std::span(&x, 1));
    ASSERT_TRUE(again.ok());
    EXPECT_TRUE(*again == *expected);
  }
  EXPECT_GE(failures, 3);
}

}  // namespace
}  // namespace plimsoll
