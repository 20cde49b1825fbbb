// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/interpreter/interpreter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/ir/text/text.h"
#include "tests/cases/compare.h"

namespace plimsoll::ir {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename T>
Literal array(const Dims& dims, std::initializer_list<T> values) {
  return Literal::array<T>(dims, std::span<const T>(values.begin(), values.size()));
}

Result<Literal> run(std::string_view hlo, const std::vector<Literal>& arguments) {
  auto module = parse_module(hlo);
  if (!module.ok()) return module.status();
  return interpret(**module, arguments);
}

// The value of one instruction on parameters p0, p1, ...
Result<Literal> run_one(const std::string& root, const std::vector<Literal>& arguments,
                        const std::string& computations = "") {
  std::string text = "HloModule one\n" + computations + "\nENTRY e {\n";
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string number = std::to_string(i);
    text +=
        "  p" + number + " = " + arguments[i].shape().to_string() + " parameter(" + number + ")\n";
  }
  return run(text + "  ROOT r = " + root + "\n}\n", arguments);
}

#define EXPECT_VALUE(result, expected)                       \
  do {                                                       \
    const auto value_ = (result);                            \
    ASSERT_TRUE(value_.ok()) << value_.status().to_string(); \
    EXPECT_EQ(cases::compare_bits((expected), *value_), ""); \
  } while (false)

const char* const kSum =
    "sum { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n";

TEST(Interpreter, DividesIntegersWithoutTrapping) {
  constexpr auto kMin = std::numeric_limits<std::int32_t>::min();
  const auto a = array<std::int32_t>({5}, {7, -7, kMin, 9, kMin});
  const auto b = array<std::int32_t>({5}, {0, 2, -1, -4, 0});
  EXPECT_VALUE(run_one("s32[5] divide(p0, p1)", {a, b}),
               array<std::int32_t>({5}, {-1, -3, kMin, -2, -1}));
  EXPECT_VALUE(run_one("s32[5] remainder(p0, p1)", {a, b}),
               array<std::int32_t>({5}, {7, -1, 0, 1, kMin}));
  EXPECT_VALUE(run_one("u8[2] divide(p0, p1)",
                       {array<std::uint8_t>({2}, {9, 200}), array<std::uint8_t>({2}, {0, 7})}),
               array<std::uint8_t>({2}, {255, 28}));
}

TEST(Interpreter, ShiftsPastTheWidthLeaveNothingOrTheSign) {
  const auto a = array<std::int8_t>({4}, {-128, 127, -1, 1});
  const auto by = array<std::int8_t>({4}, {8, 100, -1, 7});
  EXPECT_VALUE(run_one("s8[4] shift-left(p0, p1)", {a, by}),
               array<std::int8_t>({4}, {0, 0, 0, -128}));
  EXPECT_VALUE(run_one("s8[4] shift-right-logical(p0, p1)", {a, by}),
               array<std::int8_t>({4}, {0, 0, 0, 0}));
  EXPECT_VALUE(run_one("s8[4] shift-right-arithmetic(p0, p1)", {a, by}),
               array<std::int8_t>({4}, {-1, 0, -1, 0}));
}

TEST(Interpreter, ConvertsFloatsToIntegersBySaturating) {
  const auto x =
      array<float>({8}, {kNan, kInfinity, -kInfinity, 1e20f, -1e20f, -1.9f, 2.9f, 255.5f});
  constexpr auto kMax = std::numeric_limits<std::int32_t>::max();
  constexpr auto kMin = std::numeric_limits<std::int32_t>::min();
  EXPECT_VALUE(run_one("s32[8] convert(p0)", {x}),
               array<std::int32_t>({8}, {0, kMax, kMin, kMax, kMin, -1, 2, 255}));
  EXPECT_VALUE(run_one("u8[8] convert(p0)", {x}),
               array<std::uint8_t>({8}, {0, 255, 0, 255, 0, 0, 2, 255}));
  EXPECT_VALUE(run_one("pred[3] convert(p0)", {array<float>({3}, {kNan, -0.0f, 0.1f})}),
               array<bool>({3}, {true, false, true}));
}

TEST(Interpreter, MaximumAndMinimumPropagateNanAndOrderZeros) {
  const auto a = array<float>({4}, {kNan, 1, 0.0f, -0.0f});
  const auto b = array<float>({4}, {1, kNan, -0.0f, 0.0f});
  EXPECT_VALUE(run_one("f32[4] maximum(p0, p1)", {a, b}), array<float>({4}, {kNan, kNan, 0, 0}));
  EXPECT_VALUE(run_one("f32[4] minimum(p0, p1)", {a, b}),
               array<float>({4}, {kNan, kNan, -0.0f, -0.0f}));
}

TEST(Interpreter, TotalOrderPutsNansOutsideAndNegativeZeroFirst) {
  const auto a = array<float>({4}, {-kNan, -0.0f, kInfinity, kNan});
  const auto b = array<float>({4}, {-kInfinity, 0.0f, kNan, kNan});
  EXPECT_VALUE(run_one("pred[4] compare(p0, p1), direction=LT, type=TOTALORDER", {a, b}),
               array<bool>({4}, {true, true, true, false}));
  EXPECT_VALUE(run_one("pred[4] compare(p0, p1), direction=LT", {a, b}),
               array<bool>({4}, {false, false, false, false}));
}

TEST(Interpreter, RoundsHalvesOncePerOperation) {
  // 1 + 2^-9 is not a bf16: each sum rounds back to 1, and a sum in f32 would not.
  const Bfloat16 one(1.0f), tiny(0x1p-9f);
  const auto x = array<Bfloat16>({1}, {one});
  const auto y = array<Bfloat16>({1}, {tiny});
  EXPECT_VALUE(
      run("HloModule m\nENTRY e {\n p0 = bf16[1] parameter(0)\n p1 = bf16[1] parameter(1)\n"
          " a = bf16[1] add(p0, p1)\n ROOT b = bf16[1] add(a, p1)\n}\n",
          {x, y}),
      x);
}

TEST(Interpreter, SumsOfHalvesRoundOnceAtTheEnd) {
  std::vector<Bfloat16> values(512, Bfloat16(0x1p-9f));
  values[0] = Bfloat16(1.0f);
  const auto x = Literal::array<Bfloat16>({512}, values);
  const char* sum =
      "sum { a = bf16[] parameter(0)\n b = bf16[] parameter(1)\n ROOT c = bf16[] add(a, b) }\n";
  const auto result = run_one("bf16[] reduce(p0, p1), dimensions={0}, to_apply=sum",
                              {x, Literal::scalar(Bfloat16(0.0f))}, sum);
  EXPECT_VALUE(result, Literal::scalar(Bfloat16(1.0f + 511 * 0x1p-9f)));
}

TEST(Interpreter, PadsWithHolesAndCutsWithNegativeEdges) {
  const auto x = array<float>({3}, {1, 2, 3});
  const auto zero = Literal::scalar(0.0f);
  EXPECT_VALUE(run_one("f32[7] pad(p0, p1), padding=1_1_1", {x, zero}),
               array<float>({7}, {0, 1, 0, 2, 0, 3, 0}));
  EXPECT_VALUE(run_one("f32[3] pad(p0, p1), padding=-1_-1_1", {x, zero}),
               array<float>({3}, {0, 2, 0}));
}

TEST(Interpreter, ClampsTheStartsOfDynamicSlices) {
  const auto x = array<float>({4}, {1, 2, 3, 4});
  EXPECT_VALUE(run_one("f32[2] dynamic-slice(p0, p1), dynamic_slice_sizes={2}",
                       {x, Literal::scalar(std::int32_t{9})}),
               array<float>({2}, {3, 4}));
  EXPECT_VALUE(run_one("f32[4] dynamic-update-slice(p0, p1, p2)",
                       {x, array<float>({2}, {8, 9}), Literal::scalar(std::int32_t{-5})}),
               array<float>({4}, {8, 9, 3, 4}));
  EXPECT_VALUE(run_one("f32[1] dynamic-slice(p0, p1), dynamic_slice_sizes={1}",
                       {x, Literal::scalar(std::numeric_limits<std::uint64_t>::max())}),
               array<float>({1}, {4}));
}

TEST(Interpreter, GathersWithClampedAndScattersWithoutOutOfBoundsIndices) {
  const auto x = array<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  const auto rows = array<std::int32_t>({3}, {1, -4, 7});
  EXPECT_VALUE(run_one("f32[3,2] gather(p0, p1), offset_dims={1}, collapsed_slice_dims={0}, "
                       "start_index_map={0}, index_vector_dim=1, slice_sizes={1,2}",
                       {x, rows}),
               array<float>({3, 2}, {3, 4, 1, 2, 5, 6}));
  EXPECT_VALUE(run_one("f32[3,2] scatter(p0, p1, p2), update_window_dims={1}, "
                       "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
                       "index_vector_dim=1, to_apply=sum",
                       {x, rows, array<float>({3, 2}, {10, 20, 30, 40, 50, 60})}, kSum),
               array<float>({3, 2}, {1, 2, 13, 24, 5, 6}));
}

TEST(Interpreter, ScattersAWindowWhollyOrNotAtAll) {
  const auto x = array<float>({4}, {0, 0, 0, 0});
  EXPECT_VALUE(
      run_one("f32[4] scatter(p0, p1, p2), update_window_dims={1}, "
              "inserted_window_dims={}, scatter_dims_to_operand_dims={0}, "
              "index_vector_dim=1, to_apply=sum",
              {x, array<std::int32_t>({2, 1}, {3, 1}), array<float>({2, 2}, {1, 2, 3, 4})}, kSum),
      array<float>({4}, {0, 3, 4, 0}));
}

TEST(Interpreter, ConvolvesByHand) {
  const auto x = array<float>({1, 4, 1}, {1, 2, 3, 4});
  const auto k = array<float>({2, 1, 1}, {10, 1});
  EXPECT_VALUE(
      run_one("f32[1,3,1] convolution(p0, p1), window={size=2}, dim_labels=b0f_0io->b0f", {x, k}),
      array<float>({1, 3, 1}, {12, 23, 34}));
  EXPECT_VALUE(run_one("f32[1,3,1] convolution(p0, p1), window={size=2 rhs_reversal=1}, "
                       "dim_labels=b0f_0io->b0f",
                       {x, k}),
               array<float>({1, 3, 1}, {21, 32, 43}));
  EXPECT_VALUE(run_one("f32[1,8,1] convolution(p0, p1), window={size=2 pad=1_1 lhs_dilate=2}, "
                       "dim_labels=b0f_0io->b0f",
                       {x, k}),
               array<float>({1, 8, 1}, {1, 10, 2, 20, 3, 30, 4, 40}));
  EXPECT_VALUE(run_one("f32[1,2,1] convolution(p0, p1), window={size=2 rhs_dilate=2}, "
                       "dim_labels=b0f_0io->b0f",
                       {x, k}),
               array<float>({1, 2, 1}, {13, 24}));
}

TEST(Interpreter, ConvolvesGroups) {
  // Two input features; each output feature sees its own group only.
  const auto x = array<float>({1, 1, 2}, {3, 5});
  EXPECT_VALUE(run_one("f32[1,1,4] convolution(p0, p1), window={size=1}, "
                       "dim_labels=b0f_0io->b0f, feature_group_count=2",
                       {x, array<float>({1, 1, 4}, {1, 10, 100, 1000})}),
               array<float>({1, 1, 4}, {3, 30, 500, 5000}));
  // Two batch groups: the first half of the output features sees the first half of the batch.
  EXPECT_VALUE(run_one("f32[1,1,2] convolution(p0, p1), window={size=1}, "
                       "dim_labels=b0f_0io->b0f, batch_group_count=2",
                       {array<float>({2, 1, 1}, {3, 5}), array<float>({1, 1, 2}, {1, 10})}),
               array<float>({1, 1, 2}, {3, 50}));
}

TEST(Interpreter, ContractsBatchesByHand) {
  EXPECT_VALUE(run_one("s32[2,1,1] dot(p0, p1), lhs_batch_dims={0}, lhs_contracting_dims={2}, "
                       "rhs_batch_dims={1}, rhs_contracting_dims={0}",
                       {array<std::int32_t>({2, 1, 2}, {1, 2, 3, 4}),
                        array<std::int32_t>({2, 2, 1}, {10, 20, 30, 40})}),
               array<std::int32_t>({2, 1, 1}, {70, 220}));
}

TEST(Interpreter, ReducesPairsForTheFirstMaximum) {
  const char* argmax =
      "m { xv = f32[] parameter(0)\n xi = s32[] parameter(1)\n yv = f32[] parameter(2)\n"
      " yi = s32[] parameter(3)\n k = pred[] compare(xv, yv), direction=GE\n"
      " v = f32[] select(k, xv, yv)\n i = s32[] select(k, xi, yi)\n"
      " ROOT t = (f32[], s32[]) tuple(v, i) }\n";
  const auto result = run_one(
      "(f32[2], s32[2]) reduce(p0, p1, p2, p3), dimensions={1}, to_apply=m",
      {array<float>({2, 3}, {1, 5, 5, 9, 2, 3}), array<std::int32_t>({2, 3}, {0, 1, 2, 0, 1, 2}),
       Literal::scalar(-kInfinity), Literal::scalar(std::int32_t{-1})},
      argmax);
  EXPECT_VALUE(result,
               Literal::tuple({array<float>({2}, {5, 9}), array<std::int32_t>({2}, {1, 0})}));
}

TEST(Interpreter, ReducesThroughComputationsThatCall) {
  const std::string nested = std::string(kSum) +
                             "outer { x = f32[] parameter(0)\n y = f32[] parameter(1)\n"
                             " ROOT z = f32[] call(x, y), to_apply=sum }\n";
  EXPECT_VALUE(run_one("f32[] reduce(p0, p1), dimensions={0}, to_apply=outer",
                       {array<float>({3}, {1, 2, 4}), Literal::scalar(0.0f)}, nested),
               Literal::scalar(7.0f));
}

TEST(Interpreter, SlidesWindowsAndScattersToTheirMaxima) {
  const char* maximum =
      "max { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] maximum(a, b) }\n";
  const auto x = array<float>({5}, {1, 7, 2, 2, 9});
  EXPECT_VALUE(run_one("f32[4] reduce-window(p0, p1), window={size=2}, to_apply=max",
                       {x, Literal::scalar(-kInfinity)}, maximum),
               array<float>({4}, {7, 7, 2, 9}));
  const std::string both = std::string(kSum) +
                           "ge { u = f32[] parameter(0)\n v = f32[] parameter(1)\n"
                           " ROOT w = pred[] compare(u, v), direction=GE }\n";
  EXPECT_VALUE(run_one("f32[5] select-and-scatter(p0, p1, p2), window={size=2}, select=ge, "
                       "scatter=sum",
                       {x, array<float>({4}, {1, 2, 4, 8}), Literal::scalar(0.0f)}, both),
               array<float>({5}, {0, 3, 4, 0, 8}));
}

TEST(Interpreter, SortsStablyAndSurvivesComparatorsThatAreNoOrder) {
  const char* order =
      "less { a = s32[] parameter(0)\n b = s32[] parameter(1)\n c = s32[] parameter(2)\n"
      " d = s32[] parameter(3)\n ROOT k = pred[] compare(a, b), direction=LT }\n"
      "never { e = s32[] parameter(0)\n f = s32[] parameter(1)\n ROOT t = pred[] constant(true) "
      "}\n";
  EXPECT_VALUE(run_one("(s32[5], s32[5]) sort(p0, p1), dimensions={0}, to_apply=less",
                       {array<std::int32_t>({5}, {2, 1, 2, 1, 0}),
                        array<std::int32_t>({5}, {0, 1, 2, 3, 4})},
                       order),
               Literal::tuple({array<std::int32_t>({5}, {0, 1, 1, 2, 2}),
                               array<std::int32_t>({5}, {4, 1, 3, 0, 2})}));
  const auto any = run_one("s32[5] sort(p0), dimensions={0}, to_apply=never",
                           {array<std::int32_t>({5}, {2, 1, 2, 1, 0})}, order);
  EXPECT_TRUE(any.ok());
}

TEST(Interpreter, BitcastsFollowLayouts) {
  const auto x = array<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_VALUE(run("HloModule m\nENTRY e {\n p = f32[2,3]{1,0} parameter(0)\n"
                   " ROOT b = f32[3,2]{0,1} bitcast(p)\n}\n",
                   {x}),
               array<float>({3, 2}, {1, 4, 2, 5, 3, 6}));
  EXPECT_VALUE(run("HloModule m\nENTRY e {\n p = f32[2,3]{1,0} parameter(0)\n"
                   " ROOT b = f32[3,2]{1,0} bitcast(p)\n}\n",
                   {x}),
               array<float>({3, 2}, {1, 2, 3, 4, 5, 6}));
}

TEST(Interpreter, LoopsUntilTheConditionFails) {
  const char* text =
      "HloModule m\n"
      "c { t = (s32[], s32[]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n"
      " n = s32[] constant(10)\n ROOT k = pred[] compare(i, n), direction=LT }\n"
      "b { u = (s32[], s32[]) parameter(0)\n j = s32[] get-tuple-element(u), index=0\n"
      " s = s32[] get-tuple-element(u), index=1\n one = s32[] constant(1)\n"
      " j1 = s32[] add(j, one)\n s1 = s32[] add(s, j)\n ROOT r = (s32[], s32[]) tuple(j1, s1) }\n"
      "ENTRY e { p = (s32[], s32[]) parameter(0)\n"
      " ROOT w = (s32[], s32[]) while(p), condition=c, body=b }\n";
  const auto state = [](std::int32_t i, std::int32_t s) {
    return Literal::tuple({Literal::scalar(i), Literal::scalar(s)});
  };
  EXPECT_VALUE(run(text, {state(0, 0)}), state(10, 45));
  EXPECT_VALUE(run(text, {state(99, 3)}), state(99, 3));
}

TEST(Interpreter, ReducesPrecision) {
  EXPECT_VALUE(run_one("f32[6] reduce-precision(p0), exponent_bits=5, mantissa_bits=2",
                       {array<float>({6}, {1.1f, 1.125f, 1.375f, 1e6f, -1e-6f, kNan})}),
               array<float>({6}, {1.0f, 1.0f, 1.5f, kInfinity, -0.0f, kNan}));
}

TEST(Interpreter, DrawsTheSameNumbersInEveryCall) {
  const char* text =
      "HloModule m\nENTRY e {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
      " u = f32[1000] rng(a, b), distribution=rng_uniform\n"
      " v = f32[1000] rng(a, b), distribution=rng_uniform\n"
      " n = f32[1000] rng(a, b), distribution=rng_normal\n"
      " ROOT t = (f32[1000], f32[1000], f32[1000]) tuple(u, v, n)\n}\n";
  const std::vector<Literal> bounds = {Literal::scalar(2.0f), Literal::scalar(3.0f)};
  const auto first = run(text, bounds);
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  EXPECT_VALUE(run(text, bounds), *first);
  EXPECT_FALSE(first->elements()[0] == first->elements()[1]);
  double uniform = 0, normal = 0;
  for (int i = 0; i < 1000; ++i) {
    const double u = first->elements()[0].at(i);
    EXPECT_GE(u, 2);
    EXPECT_LT(u, 3);
    uniform += u / 1000;
    normal += first->elements()[2].at(i) / 1000;
  }
  EXPECT_NEAR(uniform, 2.5, 0.05);
  EXPECT_NEAR(normal, 2, 0.4);
}

TEST(Interpreter, PassesAsynchronousHalvesThrough) {
  const auto x = array<float>({2}, {1, 2});
  EXPECT_VALUE(run("HloModule m\nENTRY e {\n p = f32[2] parameter(0)\n"
                   " s = (f32[2], f32[2], u32[]) copy-start(p)\n ROOT d = f32[2] copy-done(s)\n}\n",
                   {x}),
               x);
  EXPECT_VALUE(
      run("HloModule m\nENTRY e {\n p = f32[2] parameter(0)\n"
          " s = (f32[2], f32[2]) all-gather-start(p), replica_groups={{0}}, dimensions={0}\n"
          " ROOT d = f32[2] all-gather-done(s)\n}\n",
          {x}),
      x);
  EXPECT_VALUE(
      run("HloModule m\nENTRY e {\n p = f32[2] parameter(0)\n"
          " s = (f32[2], f32[2]) collective-permute-start(p), source_target_pairs={{0,0}}\n"
          " ROOT d = f32[2] collective-permute-done(s)\n}\n",
          {x}),
      x);
  EXPECT_VALUE(run("HloModule m\nneg { x = f32[2] parameter(0)\n ROOT n = f32[2] negate(x) }\n"
                   "ENTRY e {\n p = f32[2] parameter(0)\n"
                   " s = ((f32[2]), f32[2], u32[]) async-start(p), calls=neg\n"
                   " u = ((f32[2]), f32[2], u32[]) async-update(s)\n"
                   " ROOT d = f32[2] async-done(u)\n}\n",
                   {x}),
               array<float>({2}, {-1, -2}));
}

void expect_failure(const Result<Literal>& result, StatusCode code, std::string_view part) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), code) << result.status().to_string();
  EXPECT_NE(result.status().message().find(part), std::string::npos) << result.status().to_string();
}

TEST(Interpreter, NamesWhatItDoesNotSupport) {
  const auto x = array<float>({2}, {1, 2});
  expect_failure(run_one("f32[2] custom-call(p0), custom_call_target=\"warp\"", {x}),
                 StatusCode::unimplemented, "'warp'");
  expect_failure(run_one("f32[2] all-reduce(p0), replica_groups={{0,1}}, to_apply=sum", {x}, kSum),
                 StatusCode::invalid_argument, "there is no replica 1");
  expect_failure(run("HloModule m\nENTRY e { ROOT c = f32[2] constant({...}) }\n", {}),
                 StatusCode::failed_precondition, "left out");
}

std::vector<Literal> run_replicas(const std::string& text, int replicas) {
  auto module = parse_module(text, "test");
  EXPECT_TRUE(module.ok()) << module.status().to_string();
  if (!module.ok()) return {};
  const auto again = parse_module(to_text(**module));
  EXPECT_TRUE(again.ok() && to_text(**again) == to_text(**module));
  std::vector<std::vector<Literal>> arguments;
  for (int i = 0; i < replicas; ++i) {
    arguments.push_back({array<float>({2}, {static_cast<float>(i) + 1, 10})});
  }
  auto results = interpret_together(**module, arguments);
  EXPECT_TRUE(results.ok()) << results.status().to_string();
  return results.ok() ? *std::move(results) : std::vector<Literal>();
}

// The text of XLA's, with pairs quoted or not. Who is sent nothing receives zeros.
TEST(Interpreter, SendsFromOneParticipantToAnother) {
  const auto results = run_replicas(R"(HloModule m, replica_count=3
ENTRY e {
  p = f32[2] parameter(0)
  t = token[] after-all()
  r = (f32[2], u32[], token[]) recv(t), channel_id=0, frontend_attributes={
    _xla_send_recv_source_target_pairs="{{0, 1},{1,2}}", _xla_send_recv_pipeline="0" }
  s = (f32[2], u32[], token[]) send(p, t), channel_id=0, control-predecessors={r}, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2}}}
  rd = (f32[2], token[]) recv-done(r), channel_id=0
  sd = token[] send-done(s), channel_id=0, control-predecessors={rd}
  ROOT g = f32[2] get-tuple-element(rd), index=0
})",
                                    3);
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(cases::compare_bits(array<float>({2}, {0, 0}), results[0]), "");
  EXPECT_EQ(cases::compare_bits(array<float>({2}, {1, 10}), results[1]), "");
  EXPECT_EQ(cases::compare_bits(array<float>({2}, {2, 10}), results[2]), "");
}

// Programs for GPUs send in one channel and receive in another; a channel with both ends is its
// own.
TEST(Interpreter, SendsToAChannelThatOnlyReceives) {
  const auto results = run_replicas(R"(HloModule m, num_partitions=3
ENTRY e {
  p = f32[2] parameter(0)
  t = token[] after-all()
  s = (f32[2], u32[], token[]) send(p, t), channel_id=1, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2}}}
  q = f32[2] negate(p)
  s3 = (f32[2], u32[], token[]) send(q, t), channel_id=3, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2}}}
  r3 = (f32[2], u32[], token[]) recv(t), channel_id=3, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2}}}
  r = (f32[2], u32[], token[]) recv(t), channel_id=2, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2}}}
  sd = token[] send-done(s), channel_id=1
  sd3 = token[] send-done(s3), channel_id=3
  rd3 = (f32[2], token[]) recv-done(r3), channel_id=3
  rd = (f32[2], token[]) recv-done(r), channel_id=2
  g3 = f32[2] get-tuple-element(rd3), index=0
  g = f32[2] get-tuple-element(rd), index=0
  two = f32[2] add(g, g)
  ROOT sum = f32[2] add(two, g3)
})",
                                    3);
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(cases::compare_bits(array<float>({2}, {0, 0}), results[0]), "");
  EXPECT_EQ(cases::compare_bits(array<float>({2}, {1, 10}), results[1]), "");
  EXPECT_EQ(cases::compare_bits(array<float>({2}, {2, 10}), results[2]), "");
}

// A pipeline: what is sent on follows from what has come.
TEST(Interpreter, SendsAlongChains) {
  const auto results = run_replicas(R"(HloModule m, replica_count=3
ENTRY e {
  p = f32[2] parameter(0)
  t = token[] after-all()
  r = (f32[2], u32[], token[]) recv(t), frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1},{1,2}}"}
  rd = (f32[2], token[]) recv-done(r)
  g = f32[2] get-tuple-element(rd), index=0
  sum = f32[2] add(g, p)
  s = (f32[2], u32[], token[]) send(sum, t), frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1},{1,2}}"}
  sd = token[] send-done(s)
  ROOT c = f32[2] copy(sum)
})",
                                    3);
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(cases::compare_bits(array<float>({2}, {6, 30}), results[2]), "");
}

TEST(Interpreter, NamesTransfersThatAreWrong) {
  const auto with = [](const std::string& attributes) {
    return "HloModule m\nENTRY e {\n p = f32[2] parameter(0)\n t = token[] after-all()\n"
           " s = (f32[2], u32[], token[]) send(p, t), channel_id=1" +
           attributes + "\n d = token[] send-done(s), channel_id=1\n ROOT c = f32[2] copy(p)\n}\n";
  };
  const auto pairs = [&](const std::string& text) {
    return with(", frontend_attributes={_xla_send_recv_source_target_pairs=\"" + text + "\"}");
  };
  const auto x = array<float>({2}, {1, 2});
  expect_failure(run(with(""), {x}), StatusCode::invalid_argument,
                 "_xla_send_recv_source_target_pairs says who sends to whom: it has none");
  expect_failure(run(with(", is_host_transfer=true"), {x}), StatusCode::unimplemented,
                 "transfers to and from the host");
  expect_failure(run(pairs("{{0,1}}"), {x}), StatusCode::invalid_argument, "no partition 1");
  expect_failure(run(pairs("{{0,0},{0,1}}"), {x}), StatusCode::invalid_argument, "twice");
  for (const std::string text : {"", "{", "{0,1}", "{{0,1}", "{{0,1},}", "{{0;1}}", "{{0,1}}x",
                                 "{{99999999999999999999,1}}"}) {
    expect_failure(run(pairs(text), {x}), StatusCode::invalid_argument,
                   "must be like {{0,1},{1,2}}");
  }
  expect_failure(run(pairs("{{0,0}}"), {x}), StatusCode::unimplemented, "to oneself");
  EXPECT_VALUE(run(pairs("{}"), {x}), x);
}

TEST(Interpreter, RefusesArgumentsThatDoNotFit) {
  const char* text = "HloModule m\nENTRY e { ROOT p = f32[2] parameter(0) }\n";
  expect_failure(run(text, {}), StatusCode::invalid_argument, "0 arguments");
  expect_failure(run(text, {array<float>({3}, {1, 2, 3})}), StatusCode::invalid_argument,
                 "argument 0");
  expect_failure(run(text, {Literal::elided(Shape(DType::f32, {2}))}),
                 StatusCode::failed_precondition, "argument 0");
  expect_failure(run("HloModule m\nENTRY e {\n p = f32[] parameter(0)\n"
                     " ROOT b = f32[1048576,1048576] broadcast(p), dimensions={}\n}\n",
                     {Literal::scalar(1.0f)}),
                 StatusCode::resource_exhausted, "f32[1048576,1048576]");
}

TEST(Interpreter, EvaluatesSingleInstructions) {
  const auto module = parse_module(
      "HloModule m\nENTRY e {\n a = f32[2] parameter(0)\n ROOT n = f32[2] negate(a)\n}\n");
  ASSERT_TRUE(module.ok());
  const Literal operands[] = {array<float>({2}, {1, -2})};
  EXPECT_VALUE(interpret(*(*module)->entry()->root(), operands), array<float>({2}, {-1, 2}));
  EXPECT_EQ(interpret(*(*module)->entry()->root(), {}).status().code(),
            StatusCode::invalid_argument);
}

}  // namespace
}  // namespace plimsoll::ir
