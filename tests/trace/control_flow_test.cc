// SPDX-License-Identifier: Apache-2.0
// What callbacks record of loops and branches.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/trace/record/scope.h"
#include "tests/cases/compare.h"
#include "tests/cases/random_module.h"
#include "tests/trace/lab.h"
#include "tests/trace/replay.h"

namespace plimsoll::trace {
namespace {

using ir::Opcode;

// Of everything the outputs need, evaluated at once.
std::vector<ir::Literal> evaluate(Context& context, const std::vector<NodeRef>& outputs) {
  std::vector<Node*> nodes;
  for (const NodeRef& output : outputs) nodes.push_back(output.get());
  const Status status = context.evaluate(nodes);
  EXPECT_TRUE(status.ok()) << status.to_string();
  std::vector<ir::Literal> values;
  for (Node* node : nodes) {
    const auto value = read_literal(context, node);
    EXPECT_TRUE(value.ok()) << value.status().to_string();
    if (!value.ok()) return {};
    values.push_back(*value);
  }
  return values;
}

TEST(RecordedControlFlow, RandomProgramsGiveTheInterpretersResultsAtEveryLimit) {
  int loops = 0, branches = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    cases::RandomModuleOptions options;
    options.instructions = 30;
    options.largest_bytes = 8 << 10;
    options.training_step = false;
    options.donations = false;
    const auto module = cases::random_module(seed, options);
    const auto arguments = cases::random_arguments(*module, seed);
    const auto interpreted = ir::interpret(*module, arguments);
    ASSERT_TRUE(interpreted.ok()) << interpreted.status().to_string();
    std::vector<ir::Literal> expected, free;
    add_leaves(*interpreted, expected);
    std::int64_t floor = 0;
    {
      Lab lab;
      Replay replay(*lab);
      const auto outputs = replay.run(*module, arguments);
      if (!outputs) continue;
      std::vector<Node*> nodes;
      for (const NodeRef& output : *outputs) nodes.push_back(output.get());
      const auto needs = lab->measure(nodes);
      ASSERT_TRUE(needs.ok()) << needs.status().to_string();
      floor = needs->floor_bytes;
      free = evaluate(*lab, *outputs);
      ASSERT_EQ(free.size(), expected.size());
      for (std::size_t i = 0; i < free.size(); ++i) {
        EXPECT_EQ(cases::compare_close(expected[i], free[i], 2e-3, 1e-3), "") << i;
      }
      loops += replay.loops;
      branches += replay.branches;
      // Nothing of a callback stays behind.
      EXPECT_EQ(lab->recording().depth(), 0);
    }
    ContextOptions limited;
    limited.limit_bytes = floor;
    Lab lab(std::move(limited));
    Replay replay(*lab);
    const auto outputs = replay.run(*module, arguments);
    ASSERT_TRUE(outputs.has_value());
    const auto least = evaluate(*lab, *outputs);
    ASSERT_EQ(least.size(), free.size());
    for (std::size_t i = 0; i < free.size(); ++i) EXPECT_EQ(least[i], free[i]) << i;
    EXPECT_LE(lab->budget()->statistics().peak_bytes, floor);
  }
  EXPECT_GE(loops, 3);
  EXPECT_GE(branches, 2);
}

TEST(RecordedControlFlow, OfACallbackOnlyWhatItsOutputsNeedIsKept) {
  Lab lab;
  Recording& recording = lab->recording();
  const Handle outside = lab.host({1, 2});
  const Handle pending = lab.op(Opcode::sine, {outside.node()});
  const std::int64_t before = recording.pending_count();
  Handle kept;
  std::vector<NodeRef> captured;
  std::shared_ptr<const Region> region;
  {
    Scope scope(recording);
    Node* const x = scope.parameter(pending.node()->shape());
    const Handle used = lab.op(Opcode::add, {x, pending.node()});
    const Handle unused = lab.op(Opcode::exponential, {x});
    kept = lab.op(Opcode::negate, {unused.node()});
    Node* const outputs[] = {used.node(), outside.node(), x};
    Node* const parameters[] = {x};
    auto made = scope.extract(parameters, outputs, captured);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    region = *made;
    EXPECT_EQ(recording.pending_count(), before + 4);
  }
  ASSERT_EQ(captured.size(), 2u);
  EXPECT_EQ(captured[0].get(), pending.node());
  EXPECT_EQ(captured[1].get(), outside.node());
  EXPECT_EQ(region->parameters.size(), 3u);
  EXPECT_EQ(region->steps.size(), 1u);
  EXPECT_EQ(region->outputs, (std::vector<int>{3, 2, 0}));
  // What is still held of it is no pending node any more and holds nothing itself.
  EXPECT_EQ(recording.pending_count(), before);
  EXPECT_EQ(kept.node()->scope, kEnded);
  EXPECT_TRUE(kept.node()->operands().empty());
  EXPECT_EQ(lab->evaluate(std::vector{kept.node()}).code(), StatusCode::failed_precondition);
  EXPECT_EQ(lab.read(pending).size(), 2u);
}

TEST(RecordedControlFlow, ARegionIsToldApartByAllButNames) {
  Lab lab;
  const auto key = [&](Opcode opcode, double constant, const char* name) {
    Scope scope(lab->recording());
    Node* const x = scope.parameter(ir::Shape(ir::DType::f32, {3}));
    const Handle number = lab.scalar(constant);
    const Handle sum = lab.op(opcode, {x, number.node()});
    lab->set_name(sum.node(), name);
    std::vector<NodeRef> captured;
    Node* const output[] = {sum.node()};
    const auto region = scope.extract({&x, 1}, output, captured);
    EXPECT_TRUE(region.ok());
    EXPECT_TRUE(captured.empty());
    return (*region)->key;
  };
  EXPECT_EQ(key(Opcode::add, 1, "a"), key(Opcode::add, 1, "b"));
  EXPECT_NE(key(Opcode::add, 1, "a"), key(Opcode::add, 2, "a"));
  EXPECT_NE(key(Opcode::add, 1, "a"), key(Opcode::multiply, 1, "a"));
}

TEST(RecordedControlFlow, CollectivesAreRefusedInACallback) {
  Lab lab;
  const Handle x = lab.host({1, 2});
  Scope scope(lab->recording());
  Node* const operands[] = {x.node()};
  OpAttributes sum;
  sum.callee = {Callee::Kind::combine, Opcode::add, {}};
  const auto refused = lab->recorder().record(Opcode::all_reduce, operands, &sum);
  EXPECT_EQ(refused.status().code(), StatusCode::unimplemented);
  EXPECT_NE(refused.status().message().find("inside a recorded loop or branch"), std::string::npos)
      << refused.status().message();
}

}  // namespace
}  // namespace plimsoll::trace
