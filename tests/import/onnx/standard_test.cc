// SPDX-License-Identifier: Apache-2.0
// Corners of operators that the standard's own data leave out.
#include "runtime/ir/text/text.h"
#include "tests/import/onnx/one_node.h"
#include "tests/import/onnx/small_models.h"

namespace plimsoll::testing {
namespace {

using ir::DType;

OneNode reduced(const char* op, const std::vector<float>& values) {
  OneNode node(op);
  node.input(array<float>({3}, values)).with(attribute("noop_with_empty_axes", 1));
  return node;
}

// What a reduction does to each element it does where nothing is reduced, too.
TEST(OnnxStandard, ReductionsOverNoAxesKeepTheirOtherSteps) {
  expect_near(reduced("ReduceL1", {-2, 0, 3}).result(DType::f32), {3}, {2, 0, 3}, 0);
  expect_near(reduced("ReduceL2", {-2, 0, 3}).result(DType::f32), {3}, {2, 0, 3}, 0);
  expect_near(reduced("ReduceSumSquare", {-2, 0, 3}).result(DType::f32), {3}, {4, 0, 9}, 0);
  expect_near(reduced("ReduceLogSum", {1, 2, 4}).result(DType::f32), {3}, {0, 0.693147, 1.386294},
              1e-5);
  expect_near(reduced("ReduceLogSumExp", {-2, 0, 3}).result(DType::f32), {3}, {-2, 0, 3}, 1e-6);
  expect_near(reduced("ReduceSum", {-2, 0, 3}).result(DType::f32), {3}, {-2, 0, 3}, 0);
}

TEST(OnnxStandard, IntegersHaveRootsAndLogarithmsOfSums) {
  OneNode node("ReduceL2");
  node.input(array<std::int32_t>({2, 2}, {3, 4, -6, 8})).constant(array<std::int64_t>({1}, {1}));
  expect_near(node.result(DType::s32), {2, 1}, {5, 10}, 0);
}

// Half of a real signal's spectrum becomes that signal again (which the interpreter does not
// compute).
TEST(OnnxStandard, HalfASpectrumIsTurnedBackToReals) {
  OneNode node("DFT", "", 20);
  node.input(array<float>({1, 3, 2}, {10, 0, -2, 2, -2, 0}))
      .no_input()
      .constant(array<std::int64_t>({}, {1}))
      .with(attribute("inverse", 1))
      .with(attribute("onesided", 1));
  const auto module = import::read_program(node.bytes(DType::f32), "m.onnx");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  EXPECT_EQ((*module)->entry()->root()->shape(), ir::Shape(DType::f32, {1, 4, 1}));
  const std::string text = ir::to_text(**module);
  EXPECT_NE(text.find("fft_type=IRFFT, fft_length={4}"), std::string::npos) << text;
}

// 20 times the f32 next to 0.7 is a little less than 14, and 14 in f32, as exporters declare it.
TEST(OnnxStandard, ScaledSizesAreThoseOfSingles) {
  OneNode node("Resize");
  node.input(ir::Literal(ir::Shape(DType::f32, {1, 1, 20, 10})))
      .no_input()
      .constant(array<float>({4}, {1, 1, 0.7F, 3.3F}));
  const auto made = node.result(DType::f32);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  EXPECT_EQ(made->shape().dims(), (ir::Dims{1, 1, 14, 33}));
}

// 11 / 1.1F is 10 in f32, and a little less in f64.
TEST(OnnxStandard, TheNearestOfAScaledPlaceIsTheOneOfSingles) {
  std::vector<float> numbers;
  for (int i = 0; i < 20; ++i) numbers.push_back(static_cast<float>(i));
  OneNode node("Resize");
  node.input(array<float>({1, 1, 1, 20}, numbers))
      .no_input()
      .constant(array<float>({4}, {1, 1, 1, 1.1F}))
      .with(text_attribute("coordinate_transformation_mode", "asymmetric"))
      .with(text_attribute("nearest_mode", "floor"));
  const auto made = node.result(DType::f32);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  ASSERT_EQ(made->shape().dims(), (ir::Dims{1, 1, 1, 22}));
  EXPECT_EQ(made->at(11), 10);
}

// As exporters write loops that a condition alone ends.
TEST(OnnxStandard, LoopsOfTheMostTurnsThatThereAreEndByTheirCondition) {
  const auto module = import::read_program(doubling(0x7fffffffffffffffU), "m.onnx");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const ir::Literal arguments[] = {ir::Literal::scalar(1.0F), ir::Literal::scalar(20.0F)};
  const auto result = ir::interpret(**module, arguments);
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  EXPECT_EQ(*result, ir::Literal::scalar(32.0F));
}

}  // namespace
}  // namespace plimsoll::testing
