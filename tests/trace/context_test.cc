// SPDX-License-Identifier: Apache-2.0
#include "runtime/trace/context/context.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "runtime/autograd/gradient.h"
#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/attribute_variants.h"
#include "tests/cases/op_cases.h"
#include "tests/trace/lab.h"
#include "tests/trace/replay.h"

namespace plimsoll::trace {
namespace {

using ir::DType;
using ir::Opcode;

using Floats = std::vector<float>;

TEST(Trace, GivesTheInterpretersResultForEveryRecordableCase) {
  Lab lab;
  // The trace treats all element types alike: one case per form is enough.
  std::set<std::string> forms;
  int recorded = 0;
  for (const cases::OpCase& test : cases::op_cases()) {
    SCOPED_TRACE(test.name);
    const auto dot = test.name.rfind('.');
    const bool typed =
        dot != std::string::npos && ir::parse_dtype(test.name.substr(dot + 1)).has_value();
    if (!forms.insert(typed ? test.name.substr(0, dot) : test.name).second) continue;
    const auto module = ir::parse_module(test.hlo, test.name);
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    const auto arguments = cases::random_arguments(**module, 5, test.ranges);
    Replay replay(*lab);
    const auto outputs = replay.run(**module, arguments);
    if (!outputs) continue;
    const auto expected = ir::interpret(**module, arguments);
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();
    std::vector<ir::Literal> leaves;
    add_leaves(*expected, leaves);
    for (std::size_t i = 0; i < outputs->size(); ++i) {
      const auto actual = read_literal(*lab, (*outputs)[i].get());
      ASSERT_TRUE(actual.ok()) << actual.status().to_string();
      EXPECT_EQ(cases::compare(leaves[i], *actual, test.tolerance), "");
    }
    ++recorded;
  }
  EXPECT_GT(recorded, 100);
}

TEST(Trace, AttributesSurviveTheWayThroughWords) {
  for (const cases::OpCase& test : cases::op_cases()) {
    const auto module = ir::parse_module(test.hlo, test.name);
    ASSERT_TRUE(module.ok());
    for (const auto& instruction : (*module)->entry()->instructions()) {
      if (!is_recordable(instruction->opcode())) continue;
      const OpAttributes op{instruction->attributes(), {}};
      const auto words = AttributeWords::encode(instruction->opcode(), op);
      ASSERT_TRUE(words.ok()) << test.name;
      const auto again =
          AttributeWords::encode(instruction->opcode(), decode_words(words->words()));
      ASSERT_TRUE(again.ok()) << test.name;
      EXPECT_TRUE(std::equal(words->words().begin(), words->words().end(), again->words().begin(),
                             again->words().end()))
          << test.name;
    }
  }
}

TEST(Trace, WordsHoldEveryAttribute) {
  std::set<std::vector<std::int64_t>> seen;
  for (const cases::AttributeVariant& variant : cases::attribute_variants()) {
    if (variant.is_literal || variant.is_extra) continue;  // a node holds these itself
    SCOPED_TRACE(variant.letter);
    const auto words = AttributeWords::encode(Opcode::add, {variant.attributes, {}});
    ASSERT_TRUE(words.ok()) << words.status().to_string();
    EXPECT_TRUE(seen.insert({words->words().begin(), words->words().end()}).second);
    EXPECT_TRUE(
        ir::all_fields(decode_words(words->words()).attributes, variant.attributes,
                       [](auto, const auto& a, const auto& b) { return ir::same_value(a, b); }));
  }
  EXPECT_FALSE(seen.contains({}));
  OpAttributes op;
  op.callee = {Callee::Kind::select_combine, Opcode::maximum, ir::ComparisonDirection::ge};
  const auto words = AttributeWords::encode(Opcode::add, op);
  ASSERT_TRUE(words.ok());
  EXPECT_EQ(decode_words(words->words()).callee, op.callee);
}

TEST(Trace, RefusesAttributesThatDoNotFit) {
  OpAttributes op;
  op.attributes.dimensions.assign(ir::kMaxRank + 1, 0);
  EXPECT_EQ(AttributeWords::encode(Opcode::reverse, op).status().message(),
            "reverse: an attribute lists more than 10 dims");
  op.attributes.dimensions.pop_back();
  EXPECT_TRUE(AttributeWords::encode(Opcode::reverse, op).ok());
  op.attributes.custom_call_target.assign(200, 'x');
  EXPECT_FALSE(AttributeWords::encode(Opcode::custom_call, op).ok());
}

TEST(Trace, NamesTheOperationAndTheShapesOfAnError) {
  Lab lab;
  const Handle a = lab.host({1, 2, 3});
  const Handle b = lab.host({1, 2});
  Node* const operands[] = {a.node(), b.node()};
  const auto bad = lab->recorder().record(Opcode::add, operands);
  EXPECT_EQ(bad.status().code(), StatusCode::invalid_argument);
  EXPECT_EQ(bad.status().message(), "add: f32[3] and f32[2] differ in dims");
  EXPECT_EQ(lab.read(lab.op(Opcode::add, {a.node(), a.node()})), (Floats{2, 4, 6}));
}

TEST(Trace, RefusesToCombineWhatAnOperationDoesNotTake) {
  Lab lab;
  const Handle a = lab.host({1, 2, 3});
  const Handle zero = lab.scalar(0);
  Node* const operands[] = {a.node(), zero.node()};
  OpAttributes attributes;
  attributes.attributes.dimensions = {0};
  attributes.callee = {Callee::Kind::combine, Opcode::and_, ir::ComparisonDirection::lt};
  const auto bad = lab->recorder().record(Opcode::reduce, operands, &attributes);
  EXPECT_EQ(bad.status().message(), "reduce: and can't combine f32[3]");
  attributes.callee.combiner = Opcode::maximum;
  const auto good = lab->recorder().record(Opcode::reduce, operands, &attributes);
  ASSERT_TRUE(good.ok()) << good.status().to_string();
  EXPECT_EQ(lab.read(Handle(*lab, *good)), Floats{3});
}

TEST(Trace, RefusesARandomStateThatIsNone) {
  Lab lab;
  const Handle state = lab.host({1, 2});
  Node* const operands[] = {state.node()};
  const ir::Shape bits(ir::DType::u32, {4});
  const auto bad = lab->recorder().record(Opcode::rng_bit_generator, operands, nullptr, &bits);
  EXPECT_EQ(bad.status().message(), "rng-bit-generator: state f32[2] must be u64[2] or u64[3]");
}

TEST(Trace, RoundsAScalarToTheNearestInteger) {
  Lab lab;
  const auto read = [&](double value) {
    const Handle made(*lab, lab->recorder().scalar(ir::DType::s32, value, false));
    std::int32_t number = 0;
    EXPECT_TRUE(lab->read(made.node(), std::as_writable_bytes(std::span(&number, 1))).ok());
    return number;
  };
  EXPECT_EQ(read(2.7), 3);
  EXPECT_EQ(read(-2.7), -3);
  EXPECT_EQ(read(1e20), std::numeric_limits<std::int32_t>::max());
}

TEST(Trace, BroadcastsARankZeroOperand) {
  Lab lab;
  const Handle a = lab.host({1, 2, 3});
  const Handle two = lab.scalar(2);
  EXPECT_EQ(lab.read(lab.op(Opcode::power, {two.node(), a.node()})), (Floats{2, 4, 8}));
}

TEST(Trace, CostsNoDeviceMemoryWhilePending) {
  Lab lab;
  const Handle a = lab.host({1, 2, 3});
  const Handle b = lab.op(Opcode::negate, {a.node()});
  EXPECT_EQ(lab->budget()->statistics().peak_bytes, 0);
  EXPECT_TRUE(b.node()->is_pending());
}

TEST(Trace, FindsTheProgramOfAnEqualTrace) {
  Lab lab;
  const Handle x = lab.device({1, 2, 3});
  for (int i = 0; i < 3; ++i) {
    const Handle y = lab.op(Opcode::sine, {x.node()});
    ASSERT_TRUE(lab.evaluate({y.node()}).ok());
    EXPECT_EQ(lab->last_cut().hit, i > 0) << lab->last_cut().miss_reason;
  }
  EXPECT_EQ(lab->counts().misses, 1);
}

TEST(Trace, SaysWhyItMissed) {
  Lab lab;
  const Handle x = lab.device({1, 2, 3});
  (void)lab.read(lab.op(Opcode::sine, {x.node()}));
  EXPECT_EQ(lab->last_cut().miss_reason, "first trace");
  (void)lab.read(lab.op(Opcode::cosine, {x.node()}));
  EXPECT_EQ(lab->last_cut().miss_reason,
            "op 0 is cosine f32[3], was sine f32[3] in the nearest cached trace");
  EXPECT_NE(lab.log.back().find("was sine f32[3]"), std::string::npos) << lab.log.back();
}

TEST(Trace, AHintIsPartOfTheProgram) {
  Lab lab;
  const Handle x = lab.device({1, 2, 3});
  const auto step = [&](ir::Hint hint) {
    const Handle y = lab.op(Opcode::sine, {x.node()});
    set_hint(*y.node(), hint);
    const Handle z = lab.op(Opcode::cosine, {y.node()});
    const std::vector<float> values = lab.read(z);
    EXPECT_EQ(ir::hint_of(*lab->last_cut().executable->program().module().entry()->root()),
              ir::Hint::none);
    return values;
  };
  const std::vector<float> plain = step(ir::Hint::none);
  const auto kernels = [&] {
    const auto& plan = lab->last_cut().executable->plan();
    return plan.counts.compute;
  };
  EXPECT_EQ(kernels(), 1);
  EXPECT_EQ(step(ir::Hint::keep), plain);
  EXPECT_FALSE(lab->last_cut().hit);
  EXPECT_EQ(kernels(), 2);  // the hinted value is not swallowed by a fusion
  EXPECT_EQ(step(ir::Hint::keep), plain);
  EXPECT_TRUE(lab->last_cut().hit);
}

TEST(Trace, LiftsAConstantThatChanges) {
  Lab lab;
  const Handle x = lab.device({1, 2, 3});
  std::vector<std::int64_t> misses;
  for (int i = 1; i <= 4; ++i) {
    const Handle rate = lab.scalar(0.5 * i);
    const Handle y = lab.op(Opcode::multiply, {x.node(), rate.node()});
    EXPECT_EQ(lab.read(y), (Floats{0.5f * i, 1.0f * i, 1.5f * i}));
    misses.push_back(lab->counts().misses);
  }
  EXPECT_EQ(misses, (std::vector<std::int64_t>{1, 2, 2, 2}));
}

TEST(Trace, DonatesTheOldValueOfAnAssignedVariable) {
  Lab lab;
  Handle w = lab.device(Floats(1024, 1.0f));
  const std::int64_t used = lab->budget()->statistics().used_bytes;
  for (int i = 0; i < 3; ++i) {
    Handle next = lab.op(Opcode::add, {w.node(), w.node()});
    ASSERT_TRUE(lab->assign(*w, next.node()).ok());
    next.reset();
    ASSERT_TRUE(lab.evaluate({}).ok());
    ASSERT_TRUE(lab->wait_all().ok());
    EXPECT_EQ(lab->budget()->statistics().used_bytes, used);
    ASSERT_EQ(lab->last_cut().executable->residency(0), planner::ParameterResidency::donated);
    EXPECT_EQ(lab->last_cut().executable->output_parameter(0), 0);
  }
  EXPECT_EQ(lab.read(w)[7], 8.0f);
  EXPECT_EQ(lab->counts().misses, 1);
}

TEST(Trace, KeepsTheOldValueForWhatStillNeedsIt) {
  Lab lab;
  Handle w = lab.device({1, 2});
  const Handle recipe = lab.op(Opcode::negate, {w.node()});
  const Handle copy(*lab, NodeRef(lab->recording(), w.node()));
  const Handle next = lab.op(Opcode::exponential, {w.node()});
  ASSERT_TRUE(lab->assign(*w, next.node()).ok());
  ASSERT_TRUE(lab.evaluate({}).ok());
  // `copy` still names the old value, so nothing was donated.
  EXPECT_TRUE(recipe.node()->is_pending());
  EXPECT_EQ(lab.read(copy), (Floats{1, 2}));
  EXPECT_EQ(lab.read(recipe), (Floats{-1, -2}));
}

TEST(Trace, ComputesARecipeBeforeItsInputIsGivenAway) {
  Lab lab;
  Handle w = lab.device({1, 2});
  const Handle recipe = lab.op(Opcode::negate, {w.node()});
  const Handle next = lab.op(Opcode::add, {w.node(), w.node()});
  ASSERT_TRUE(lab->assign(*w, next.node()).ok());
  ASSERT_TRUE(lab.evaluate({}).ok());
  EXPECT_FALSE(recipe.node()->is_pending());
  EXPECT_EQ(lab.read(recipe), (Floats{-1, -2}));
  EXPECT_EQ(lab.read(w), (Floats{2, 4}));
}

TEST(Trace, LeavesWhatNobodyAskedForPending) {
  Lab lab;
  const Handle x = lab.device({1, 2});
  const Handle a = lab.op(Opcode::negate, {x.node()});
  const Handle b = lab.op(Opcode::add, {a.node(), x.node()});
  ASSERT_TRUE(lab.evaluate({b.node()}).ok());
  EXPECT_TRUE(a.node()->is_pending());
  EXPECT_EQ(lab.read(b), (Floats{0, 0}));
  EXPECT_EQ(lab.read(a), (Floats{-1, -2}));
}

TEST(Trace, CutsItselfPastTheLimitOfPendingOperations) {
  ContextOptions options;
  options.max_pending = 50;
  Lab lab(options);
  const Handle one = lab.scalar(1);
  Handle sum = lab.host({0});
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(lab->limit_pending().ok());
    sum = lab.op(Opcode::add, {sum.node(), one.node()});
  }
  EXPECT_GE(lab->counts().cuts, 2);
  EXPECT_EQ(lab.read(sum), (Floats{200}));
}

TEST(Trace, LosesNothingWhenNoPlanFits) {
  ContextOptions options;
  options.limit_bytes = 8128;  // y and z alone are 8192: x lies in z until then
  Lab lab(options);
  const Handle x = lab.host(Floats(1024, 2.0f));
  const Handle y = lab.op(Opcode::sine, {x.node()});
  const Handle z = lab.op(Opcode::multiply, {y.node(), x.node()});
  const Status status = lab.evaluate({y.node(), z.node()});
  ASSERT_EQ(status.code(), StatusCode::resource_exhausted) << status.to_string();
  ASSERT_NE(status.shortage(), nullptr);
  EXPECT_EQ(status.shortage()->limit_bytes, 8128);
  EXPECT_GT(status.shortage()->floor_bytes, 8128);
  EXPECT_TRUE(y.node()->is_pending());
  lab->budget()->set_limit(status.shortage()->floor_bytes);
  ASSERT_TRUE(lab.evaluate({y.node(), z.node()}).ok());
  EXPECT_EQ(lab.read(z).size(), 1024u);
  EXPECT_LE(lab->budget()->statistics().peak_bytes, status.shortage()->floor_bytes);
}

// One step of a small training loop: w := w - rate * d loss / d w, m := 0.9 m + g.
struct Training {
  Lab lab;
  Handle w = lab.device({0.5f, -1.0f, 2.0f, 0.25f});
  Handle m = lab.device({0, 0, 0, 0});

  // Everything a loop does between two steps; the status of the cut or of what ran.
  Status step(float x) {
    Recorder& recorder = lab->recorder();
    const Handle data = lab.host({x, x + 1, x - 1, x * x});
    const Handle product = lab.op(Opcode::multiply, {w.node(), data.node()});
    const Handle activation = lab.op(Opcode::tanh, {product.node()});
    Node* const of[] = {activation.node()};
    Node* const wrt[] = {w.node()};
    auto gradients = autograd::gradients(recorder, of, {}, wrt, autograd::Unused::error);
    if (!gradients.ok()) return gradients.status();
    {
      const Handle decay = lab.scalar(0.9);
      const Handle rate = lab.scalar(0.1);
      const Handle kept = lab.op(Opcode::multiply, {m.node(), decay.node()});
      const Handle momentum = lab.op(Opcode::add, {kept.node(), (*gradients)[0].get()});
      const Handle change = lab.op(Opcode::multiply, {momentum.node(), rate.node()});
      const Handle next = lab.op(Opcode::subtract, {w.node(), change.node()});
      PLIMSOLL_RETURN_IF_ERROR(lab->assign(*m, momentum.node()));
      PLIMSOLL_RETURN_IF_ERROR(lab->assign(*w, next.node()));
    }
    gradients->clear();
    PLIMSOLL_RETURN_IF_ERROR(lab.evaluate({}));
    return lab->wait_all();
  }
};

TEST(Trace, ReportsAFailedAllocationAndGoesOnForEveryAllocationOfAStep) {
  Floats expected;
  {
    Training reference;
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(reference.step(0.1f * static_cast<float>(i)).ok());
    expected = reference.lab.read(reference.w);
  }
  std::int64_t n = 1;
  for (;; ++n) {
    Training training;
    ASSERT_TRUE(training.step(0).ok());
    const std::int64_t used = training.lab->budget()->statistics().used_bytes;
    training.lab->budget()->fail_allocation(n);
    const Status failed = training.step(0.1f);
    const bool injected = !failed.ok();
    training.lab->budget()->fail_allocation(0);
    if (injected) {
      EXPECT_EQ(failed.code(), StatusCode::resource_exhausted) << failed.to_string();
    }
    const Status next = training.step(0.2f);
    ASSERT_TRUE(next.ok()) << next.to_string();
    EXPECT_EQ(training.lab.read(training.w), expected) << "allocation " << n;
    EXPECT_EQ(training.lab->budget()->statistics().used_bytes, used);
    if (!injected) break;
  }
  EXPECT_GE(n, 2);
}

// The reader is told where it comes before the failure is known, else all is tried again before it
// reads (Ahead.AFailedRunSaysWhyOnceAndIsThenTriedAgain tells the former apart).
TEST(Trace, ErrorReachesTheReaderAtMostOnceAndThenTheReadIsTriedAgain) {
  Lab lab;
  const Handle x = lab.device({1, 2});
  const Handle y = lab.op(Opcode::negate, {x.node()});
  lab->wait_idle();  // the failure is the evaluation's, not the upload's
  lab->budget()->fail_allocation(1);
  ASSERT_TRUE(lab.evaluate({y.node()}).ok());
  const Handle z = lab.op(Opcode::add, {y.node(), y.node()});
  const Handle other = lab.op(Opcode::sine, {x.node()});
  const Status first = lab.read_status(y);
  EXPECT_TRUE(first.ok() || first.code() == StatusCode::resource_exhausted) << first.to_string();
  EXPECT_EQ(lab->budget()->fail_allocation(0), 0);
  EXPECT_EQ(lab.read(other).size(), 2u);
  EXPECT_EQ(lab.read(z), (Floats{-2, -4}));
  EXPECT_EQ(lab.read(y), (Floats{-1, -2}));
}

TEST(Trace, WhatAFailedRunReadGoesWithTheLastWhoWantsItsResult) {
  Lab lab;
  Handle x = lab.device({1, 2});
  Handle y = lab.op(Opcode::negate, {x.node()});
  lab->wait_idle();
  lab->budget()->fail_allocation(1);
  ASSERT_TRUE(lab.evaluate({y.node()}).ok());
  EXPECT_EQ(lab->wait_all().code(), StatusCode::resource_exhausted);
  x.reset();  // stays for the second try
  lab->wait_idle();
  EXPECT_GT(lab->budget()->statistics().used_bytes, 0);
  y.reset();  // which nobody can ask for any more
  EXPECT_TRUE(lab->wait_all().ok());
  EXPECT_EQ(lab->budget()->statistics().used_bytes, 0);
}

TEST(Trace, RecordsTheNextStepWhileOneRuns) {
  Training training;
  std::vector<Floats> seen;
  for (int i = 0; i < 20; ++i) {
    // No wait between the steps: the queue holds what is not done.
    const Handle data = training.lab.host({1, 1, 1, 1});
    Handle next = training.lab.op(Opcode::add, {training.w.node(), data.node()});
    ASSERT_TRUE(training.lab->assign(*training.w, next.node()).ok());
    next.reset();
    ASSERT_TRUE(training.lab.evaluate({}).ok());
  }
  EXPECT_EQ(training.lab.read(training.w), (Floats{20.5f, 19.0f, 22.0f, 20.25f}));
}

TEST(Trace, GivesTheSameBitsUnderALimit) {
  const auto run = [](std::int64_t limit) {
    ContextOptions options;
    options.limit_bytes = limit;
    Lab lab(options);
    Handle x = lab.host(Floats(4096, 0.37f));
    std::vector<Handle> kept;
    Handle value = lab.op(Opcode::sine, {x.node()});
    for (int i = 0; i < 8; ++i) {
      kept.push_back(lab.op(i % 2 == 0 ? Opcode::tanh : Opcode::cosine, {value.node()}));
      value = lab.op(Opcode::exponential, {kept.back().node()});
    }
    for (Handle& old : kept) value = lab.op(Opcode::multiply, {value.node(), old.node()});
    kept.clear();
    Floats bits = lab.read(value);
    EXPECT_LE(lab->budget()->statistics().peak_bytes, limit);
    return bits;
  };
  EXPECT_EQ(run(planner::kUnlimited), run(5 * 16384));
}

}  // namespace
}  // namespace plimsoll::trace
