// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/shapes/verifier.h"
#include "runtime/ir/text/text.h"
#include "runtime/passes/passes.h"
#include "tests/cases/compare.h"
#include "tests/cases/random_convolutions.h"
#include "tests/passes/expression.h"

namespace plimsoll::passes {
namespace {

std::string entry_after_layouts(const std::string& text) {
  const auto module = parse(text);
  const Result<bool> changed = assign_layouts(*module);
  EXPECT_TRUE(changed.ok()) << changed.status().to_string();
  EXPECT_TRUE(ir::verify(*module).ok()) << ir::verify(*module).to_string();
  const std::string all = ir::to_text(*module);
  return all.substr(all.find("ENTRY"));
}

std::int64_t count(const ir::Module& module, ir::Opcode opcode) {
  std::int64_t found = 0;
  for (const auto& instruction : module.entry()->instructions())
    found += instruction->opcode() == opcode ? 1 : 0;
  return found;
}

const char* const kHead = R"(HloModule m
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
)";

TEST(AssignLayouts, AChannelsFirstChainBecomesChannelsLast) {
  EXPECT_EQ(
      entry_after_layouts(std::string(kHead) + R"(
ENTRY e {
  x = f32[8,3,16,16] parameter(0)
  w = f32[16,3,3,3] parameter(1)
  v = f32[16,16,3,3] parameter(2)
  bias = f32[16] parameter(3)
  zero = f32[] constant(0)
  low = f32[] constant(-inf)
  y = f32[8,16,16,16] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01
  b = f32[8,16,16,16] broadcast(bias), dimensions={1}
  s = f32[8,16,16,16] add(y, b)
  z = f32[8,16,16,16] convolution(s, v), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01
  p = f32[8,16,8,8] reduce-window(z, low), window={size=1x1x2x2 stride=1x1x2x2}, to_apply=max
  ROOT m = f32[16] reduce(p, zero), dimensions={0,2,3}, to_apply=add
})"),
      R"(ENTRY %e (x: f32[8,3,16,16], w: f32[16,3,3,3], v: f32[16,16,3,3], bias: f32[16]) -> f32[16] {
  %x = f32[8,3,16,16] parameter(0)
  %w = f32[16,3,3,3] parameter(1)
  %v = f32[16,16,3,3] parameter(2)
  %bias = f32[16] parameter(3)
  %zero = f32[] constant(0)
  %low = f32[] constant(-inf)
  %y.1 = f32[8,16,16,16] convolution(%x, %w), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->b01f
  %b.3 = f32[8,16,16,16] broadcast(%bias), dimensions={3}
  %s.1 = f32[8,16,16,16] add(%y.1, %b.3)
  %z.1 = f32[8,16,16,16] convolution(%s.1, %v), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_oi01->b01f
  %p.1 = f32[8,8,8,16] reduce-window(%z.1, %low), window={size=1x2x2x1 stride=1x2x2x1}, to_apply=%max
  ROOT %m = f32[16] reduce(%p.1, %zero), dimensions={0,1,2}, to_apply=%add
}
)");
}

TEST(AssignLayouts, AFiltersGradientTakesItsBatchOutermostAndItsFeaturesInnermost) {
  const std::string after = entry_after_layouts(R"(HloModule m
ENTRY e {
  x = f32[8,16,14,14] parameter(0)
  g = f32[8,32,14,14] parameter(1)
  y = f32[8,16,14,14] multiply(x, x)
  h = f32[8,32,14,14] multiply(g, g)
  r = f32[8,16,14,14] add(y, y)
  k = f32[8,32,14,14] add(h, h)
  w = f32[32,16,3,3] convolution(r, k), window={size=14x14 pad=1_1x1_1}, dim_labels=fb01_io01->fb01
  v = f32[32,16,5,5] convolution(r, k), window={size=14x14 pad=2_2x2_2}, dim_labels=fb01_io01->fb01
  ROOT t = (f32[32,16,3,3], f32[32,16,5,5]) tuple(w, v)
})");
  EXPECT_NE(after.find("dim_labels=f01b_i01o->fb01"), std::string::npos) << after;
}

TEST(AssignLayouts, WhatWouldCostMoreTransposesThanItSavesStays) {
  const std::string text = R"(HloModule m
ENTRY e {
  x = f32[8,16,14,14] parameter(0)
  w = f32[16,16,3,3] parameter(1)
  y = f32[8,16,14,14] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01
  ROOT n = f32[8,16,14,14] negate(y)
})";
  const auto module = parse(text);
  const std::string before = ir::to_text(*module);
  const Result<bool> changed = assign_layouts(*module);
  ASSERT_TRUE(changed.ok());
  EXPECT_FALSE(*changed);
  EXPECT_EQ(ir::to_text(*module), before);
}

TEST(AssignLayouts, ChannelsLastStays) {
  const auto module = parse(R"(HloModule m
ENTRY e {
  x = f32[8,14,14,16] parameter(0)
  w = f32[3,3,16,16] parameter(1)
  y = f32[8,14,14,16] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  r = f32[8,14,14,16] negate(y)
  ROOT z = f32[8,14,14,16] convolution(r, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
})");
  const Result<bool> changed = assign_layouts(*module);
  ASSERT_TRUE(changed.ok());
  EXPECT_FALSE(*changed);
}

TEST(AssignLayouts, TransposesThatAProgramWritesAroundItsConvolutionsGo) {
  const auto module = parse(R"(HloModule m
ENTRY e {
  x = f32[8,14,14,16] parameter(0)
  w = f32[16,16,3,3] parameter(1)
  first = f32[8,16,14,14] transpose(x), dimensions={0,3,1,2}
  r = f32[8,16,14,14] negate(first)
  y = f32[8,16,14,14] convolution(r, w), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01
  s = f32[8,16,14,14] tanh(y)
  ROOT last = f32[8,14,14,16] transpose(s), dimensions={0,2,3,1}
})");
  ASSERT_TRUE(optimize(*module).ok());
  EXPECT_EQ(count(*module, ir::Opcode::transpose), 0) << ir::to_text(*module);
  for (const auto& instruction : module->entry()->instructions()) {
    if (instruction->opcode() != ir::Opcode::convolution) continue;
    EXPECT_EQ(instruction->attributes().convolution->input_feature, 3);
    EXPECT_EQ(instruction->attributes().convolution->output_feature, 3);
  }
}

// A sum over channels and places takes its elements as written: the value is put back for it.
TEST(AssignLayouts, ReductionsKeepTheOrderOfTheirElements) {
  const auto module = parse(std::string(kHead) + R"(
ENTRY e {
  x = f32[8,16,14,14] parameter(0)
  w = f32[16,16,3,3] parameter(1)
  zero = f32[] constant(0)
  y = f32[8,16,14,14] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01
  r = f32[8,16,14,14] negate(y)
  z = f32[8,16,14,14] convolution(r, w), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01
  q = f32[8,16,14,14] negate(z)
  p = f32[8,16,14,14] convolution(q, w), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01
  ROOT m = f32[8] reduce(p, zero), dimensions={1,2,3}, to_apply=add
})");
  const Result<bool> changed = assign_layouts(*module);
  ASSERT_TRUE(changed.ok());
  EXPECT_TRUE(*changed);
  EXPECT_EQ(module->entry()->root()->attributes().dimensions, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(module->entry()->root()->operand(0)->shape().dims(), (ir::Dims{8, 16, 14, 14}));
}

// A body's own parameter and result keep the shape that the loop gives them.
TEST(AssignLayouts, LoopBodiesAreRelaidInside) {
  const auto module = parse(R"(HloModule m
body {
  p = (s32[], f32[2,3,6,6], f32[3,3,3,3]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[2,3,6,6] get-tuple-element(p), index=1
  w = f32[3,3,3,3] get-tuple-element(p), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  a = f32[2,3,6,6] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01
  b = f32[2,3,6,6] tanh(a)
  c = f32[2,3,6,6] convolution(b, w), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01
  d = f32[2,3,6,6] tanh(c)
  ROOT t = (s32[], f32[2,3,6,6], f32[3,3,3,3]) tuple(next, d, w)
}
condition {
  p = (s32[], f32[2,3,6,6], f32[3,3,3,3]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  three = s32[] constant(3)
  ROOT r = pred[] compare(i, three), direction=LT
}
ENTRY e {
  x = f32[2,3,6,6] parameter(0)
  w = f32[3,3,3,3] parameter(1)
  zero = s32[] constant(0)
  t = (s32[], f32[2,3,6,6], f32[3,3,3,3]) tuple(zero, x, w)
  l = (s32[], f32[2,3,6,6], f32[3,3,3,3]) while(t), condition=condition, body=body
  ROOT r = f32[2,3,6,6] get-tuple-element(l), index=1
})");
  const auto arguments = cases::random_arguments(*module, 3);
  const auto expected = ir::interpret(*module, arguments);
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  const Result<bool> changed = assign_layouts(*module);
  ASSERT_TRUE(changed.ok());
  EXPECT_TRUE(*changed);
  ASSERT_TRUE(ir::verify(*module).ok()) << ir::verify(*module).to_string();
  const auto actual = ir::interpret(*module, arguments);
  ASSERT_TRUE(actual.ok()) << actual.status().to_string();
  EXPECT_EQ(cases::compare_bits(*expected, *actual), "");
}

// Constant filters of more than a thousand numbers a position are permuted; what another
// instruction reads, small ones and parameters stay.
TEST(AssignLayouts, LargeConstantFiltersAreLaidOutOnce) {
  const auto module = std::make_unique<ir::Module>("m");
  ir::Computation* const e = module->add_computation("e");
  const auto add_filters = [&](std::int64_t outputs) {
    ir::Literal filters(ir::Shape(ir::DType::f32, {outputs, 32, 3, 3}));
    for (std::int64_t i = 0; i < filters.shape().element_count(); ++i) {
      filters.set(i, static_cast<double>(i * 37 % 1009 - 500));
    }
    return e->add_constant(filters);
  };
  ir::Instruction* const x = e->add_parameter(0, ir::Shape(ir::DType::f32, {1, 4, 5, 32}));
  ir::Instruction* const large = add_filters(77);
  ir::Instruction* const small = add_filters(32);
  ir::Instruction* const given = e->add_parameter(1, ir::Shape(ir::DType::f32, {77, 32, 3, 3}));
  std::vector<ir::Instruction*> results;
  for (ir::Instruction* const filters : {large, small, given}) {
    ir::Attributes attributes;
    attributes.window.assign(2, ir::WindowDimension{3, 1, 1, 1, 1, 1, false});
    ir::ConvolutionDimensions labels;
    labels.input_batch = labels.output_batch = 0;
    labels.input_feature = labels.output_feature = 3;
    labels.input_spatial = labels.output_spatial = {1, 2};
    labels.kernel_output_feature = 0;
    labels.kernel_input_feature = 1;
    labels.kernel_spatial = {2, 3};
    attributes.convolution = std::make_shared<ir::ConvolutionDimensions>(labels);
    results.push_back(e->add(ir::Opcode::convolution,
                             ir::Shape(ir::DType::f32, {1, 4, 5, filters->shape().dim(0)}),
                             {x, filters}, "", attributes));
  }
  e->add_tuple(results);
  module->set_entry(e);
  ASSERT_TRUE(ir::verify(*module).ok()) << ir::verify(*module).to_string();
  const auto arguments = cases::random_arguments(*module, 3);
  const auto expected = ir::interpret(*module, arguments);
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  const Result<bool> changed = assign_layouts(*module);
  ASSERT_TRUE(changed.ok() && *changed);
  ASSERT_TRUE(ir::verify(*module).ok()) << ir::verify(*module).to_string();
  const ir::Instruction& root = *module->entry()->root();
  EXPECT_EQ(root.operand(0)->operand(1)->shape(), ir::Shape(ir::DType::f32, {3, 3, 32, 77}));
  EXPECT_EQ(root.operand(1)->operand(1), small);
  EXPECT_EQ(root.operand(2)->operand(1), given);
  const auto actual = ir::interpret(*module, arguments);
  ASSERT_TRUE(actual.ok()) << actual.status().to_string();
  EXPECT_EQ(cases::compare_bits(*expected, *actual), "");
  const Result<bool> again = assign_layouts(*module);
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(*again);
}

TEST(AssignLayouts, KeepsTheBitsOfRandomNetworks) {
  int relaid = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const auto module = cases::random_convolutions(seed);
    ASSERT_TRUE(ir::verify(*module).ok()) << ir::verify(*module).to_string();
    const auto arguments = cases::random_arguments(*module, seed);
    const auto expected = ir::interpret(*module, arguments);
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();
    for (const bool alone : {true, false}) {
      const auto changed = module->clone();
      if (alone) {
        const Result<bool> moved = assign_layouts(*changed);
        ASSERT_TRUE(moved.ok()) << moved.status().to_string();
        relaid += *moved ? 1 : 0;
      } else {
        ASSERT_TRUE(optimize(*changed).ok());
      }
      ASSERT_TRUE(ir::verify(*changed).ok())
          << "seed " << seed << ": " << ir::verify(*changed).to_string();
      const auto actual = ir::interpret(*changed, arguments);
      ASSERT_TRUE(actual.ok()) << actual.status().to_string();
      ASSERT_EQ(cases::compare_bits(*expected, *actual), "")
          << "seed " << seed << "\n"
          << ir::to_text(*module) << ir::to_text(*changed);
    }
  }
  EXPECT_GT(relaid, 100);
}

}  // namespace
}  // namespace plimsoll::passes
