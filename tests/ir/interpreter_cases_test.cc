// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include "runtime/ir/interpreter.h"
#include "runtime/ir/text.h"
#include "runtime/ir/verifier.h"
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
  // Left out: what is stateful, reaches outside, or is an asynchronous half (interpreter_test.cc).
  const std::set<Opcode> elsewhere = {Opcode::rng,
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

}  // namespace
}  // namespace plimsoll::ir
