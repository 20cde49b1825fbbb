// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/shapes/verifier.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/op_cases.h"

namespace plimsoll::ir {
namespace {

TEST(OpCases, NamesAreUnique) {
  std::set<std::string> names;
  for (const cases::OpCase& c : cases::op_cases())
    EXPECT_TRUE(names.insert(c.name).second) << c.name;
  EXPECT_GT(names.size(), 500u);
}

TEST(OpCases, ParseVerifyAndInterpretWithTheShapesTheyDeclare) {
  for (const cases::OpCase& c : cases::op_cases()) {
    const auto module = parse_module(c.hlo, c.name);
    ASSERT_TRUE(module.ok()) << module.status().to_string() << "\n" << c.hlo;
    EXPECT_TRUE(verify(**module).ok()) << c.name;
    const auto arguments = cases::random_arguments(**module, 1, c.ranges);
    const auto result = interpret(**module, arguments);
    ASSERT_TRUE(result.ok()) << c.name << ": " << result.status().to_string();
    EXPECT_EQ(result->shape(), (*module)->entry()->root()->shape()) << c.name;
    const auto again = interpret(**module, arguments);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(cases::compare_bits(*result, *again), "") << c.name;
  }
}

TEST(OpCases, SurviveThePrinter) {
  for (const cases::OpCase& c : cases::op_cases()) {
    const auto module = parse_module(c.hlo, c.name);
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    const auto back = parse_module(to_text(**module), c.name);
    ASSERT_TRUE(back.ok()) << back.status().to_string();
    const auto arguments = cases::random_arguments(**module, 2, c.ranges);
    const auto expected = interpret(**module, arguments);
    const auto actual = interpret(**back, arguments);
    ASSERT_TRUE(expected.ok() && actual.ok()) << c.name;
    EXPECT_EQ(cases::compare_bits(*expected, *actual), "") << c.name;
  }
}

TEST(OpCases, DifferentiableParametersAreFloatsAndSoIsTheResult) {
  for (const cases::OpCase& c : cases::op_cases()) {
    if (c.differentiable.empty()) continue;
    const auto module = parse_module(c.hlo, c.name);
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    const Shape& result = (*module)->entry()->root()->shape();
    ASSERT_TRUE(result.is_array()) << c.name;
    EXPECT_TRUE(is_floating(result.dtype())) << c.name;
    for (int p : c.differentiable) {
      const auto& parameters = (*module)->entry()->parameters();
      ASSERT_LT(static_cast<std::size_t>(p), parameters.size()) << c.name;
      EXPECT_TRUE(is_floating(parameters[static_cast<std::size_t>(p)]->shape().dtype())) << c.name;
    }
  }
}

TEST(OpCases, CoverEveryOpcodeThatOneParticipantCanRun) {
  std::set<Opcode> seen;
  for (const cases::OpCase& c : cases::op_cases()) {
    const auto module = parse_module(c.hlo, c.name);
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    for (const auto& computation : (*module)->computations()) {
      for (const auto& instruction : computation->instructions())
        seen.insert(instruction->opcode());
    }
  }
  // Left out: what is stateful, reaches outside, or is an asynchronous half (interpreter_test.cc),
  // and what is expanded before anything runs (tests/c_api/jax_programs_test.cc).
  const std::set<Opcode> elsewhere = {Opcode::real,
                                      Opcode::imag,
                                      Opcode::complex,
                                      Opcode::topk,
                                      Opcode::fft,
                                      Opcode::cholesky,
                                      Opcode::triangular_solve,
                                      Opcode::batch_norm_training,
                                      Opcode::batch_norm_inference,
                                      Opcode::batch_norm_grad,
                                      Opcode::scan,
                                      Opcode::ragged_dot,
                                      Opcode::scaled_dot,
                                      Opcode::stochastic_convert,
                                      Opcode::mulhi,
                                      Opcode::rng,
                                      Opcode::rng_get_and_update_state,
                                      Opcode::custom_call,
                                      Opcode::domain,
                                      Opcode::all_to_all,
                                      Opcode::collective_broadcast,
                                      Opcode::send,
                                      Opcode::send_done,
                                      Opcode::recv,
                                      Opcode::recv_done,
                                      Opcode::infeed,
                                      Opcode::outfeed,
                                      Opcode::copy_start,
                                      Opcode::copy_done,
                                      Opcode::all_gather_start,
                                      Opcode::all_gather_done,
                                      Opcode::collective_permute_start,
                                      Opcode::collective_permute_done,
                                      Opcode::async_start,
                                      Opcode::async_update,
                                      Opcode::async_done};
  for (int i = 0; i < opcode_count(); ++i) {
    const auto opcode = static_cast<Opcode>(i);
    EXPECT_NE(seen.contains(opcode), elsewhere.contains(opcode)) << to_string(opcode);
  }
}

TEST(Compare, NamesTheFirstDifferingElement) {
  const float a[] = {1, 2, 3, 4}, b[] = {1, 2, 3.5f, 5};
  const Literal x = Literal::tuple({Literal::array<float>({2, 2}, a)});
  const Literal y = Literal::tuple({Literal::array<float>({2, 2}, b)});
  EXPECT_EQ(cases::compare_bits(x, x), "");
  EXPECT_EQ(cases::compare_bits(x, y),
            "element {0}[1,0] of f32[2,2]: expected 3 (0x1.8p+1), got 3.5 (0x1.cp+1) (2 elements "
            "differ)");
  EXPECT_NE(cases::compare_bits(x.elements()[0], y), "");
}

TEST(Compare, TakesNansForEqualAndZerosForDifferentBits) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(cases::compare_bits(Literal::scalar(nan), Literal::scalar(-nan)), "");
  EXPECT_NE(cases::compare_bits(Literal::scalar(0.0f), Literal::scalar(-0.0f)), "");
  EXPECT_NE(cases::compare_close(Literal::scalar(nan), Literal::scalar(1.0f), 1), "");
  EXPECT_NE(cases::compare_ulps(Literal::scalar(1.0f), Literal::scalar(nan), 1000), "");
}

TEST(Compare, MeasuresAgainstTheLargestMagnitudeOrInUlps) {
  const float a[] = {100, 0.001f}, b[] = {100, 0.0015f};
  const Literal x = Literal::array<float>({2}, a), y = Literal::array<float>({2}, b);
  EXPECT_EQ(cases::compare_close(x, y, 1e-5), "");
  EXPECT_NE(cases::compare_close(x, y, 1e-6), "");
  const Literal one = Literal::scalar(1.0f), next = Literal::scalar(std::nextafter(1.0f, 2.0f));
  EXPECT_EQ(cases::compare_ulps(one, next, 1), "");
  EXPECT_NE(cases::compare_ulps(one, next, 0), "");
  EXPECT_EQ(cases::compare_ulps(Literal::scalar(-1e-45f), Literal::scalar(1e-45f), 2), "");
}

TEST(RandomLiteral, StaysInItsRangeAndDependsOnTheSeed) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64, DType::s32, DType::u8}) {
    const Shape shape(dtype, {1000});
    const Literal a = cases::random_literal(shape, 1, {-3, 5});
    EXPECT_EQ(a, cases::random_literal(shape, 1, {-3, 5}));
    EXPECT_FALSE(a == cases::random_literal(shape, 2, {-3, 5}));
    for (int i = 0; i < 1000; ++i) {
      EXPECT_GE(a.at(i), -3);
      EXPECT_LE(a.at(i), 5);
    }
  }
}

}  // namespace
}  // namespace plimsoll::ir
