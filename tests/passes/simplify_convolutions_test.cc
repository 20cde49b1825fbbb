// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/shapes/verifier.h"
#include "tests/cases/compare.h"
#include "tests/cases/random.h"
#include "tests/passes/expression.h"

namespace plimsoll::passes {
namespace {

const ir::Instruction* convolution_of(const ir::Module& module) {
  for (const auto& one : module.entry()->instructions()) {
    if (one->opcode() == ir::Opcode::convolution) return one.get();
  }
  return nullptr;
}

// One spatial dim of a convolution of what went into a transposed one by the gradient of what came
// out.
struct Dim {
  std::int64_t inputs = 0, outputs = 0, filter = 0;  // places
  std::int64_t stride = 1, dilation = 1, low = 0;  // of the transposed convolution, and of the pad
  // What the text needs behind, so that it gives a filter of that size.
  std::int64_t high() const {
    return (filter - 1) * dilation + outputs - ((inputs - 1) * stride + 1) - low;
  }
};

std::string text_of(const Dim& a, const Dim& b) {
  return fmt::format(
      "HloModule m\nENTRY e {{\n x = f32[2,{},{},3] parameter(0)\n g = f32[2,{},{},4] "
      "parameter(1)\n"
      " ROOT r = f32[{},{},3,4] convolution(x, g), window={{size={}x{} stride={}x{} "
      "pad={}_{}x{}_{} "
      "lhs_dilate={}x{}}}, dim_labels=f01b_i01o->01bf\n}}\n",
      a.inputs, b.inputs, a.outputs, b.outputs, a.filter, b.filter, a.outputs, b.outputs,
      a.dilation, b.dilation, a.low, a.high(), b.low, b.high(), a.stride, b.stride);
}

// Whether its operands change places; it has the same bits either way.
bool is_exchanged(const std::string& text) {
  const auto before = parse(text), after = parse(text);
  if (before == nullptr) return false;
  EXPECT_TRUE(simplify(*after).ok());
  EXPECT_TRUE(ir::verify(*after).ok()) << ir::to_text(*after);
  const auto arguments = cases::random_arguments(*before, 7, {{-9, 9}, {-9, 9}});
  const auto expected = ir::interpret(*before, arguments);
  const auto got = ir::interpret(*after, arguments);
  EXPECT_TRUE(expected.ok() && got.ok()) << text;
  if (expected.ok() && got.ok()) EXPECT_EQ(cases::compare_bits(*expected, *got), "") << text;
  const ir::Instruction* convolution = convolution_of(*after);
  return convolution->operand(0)->attributes().parameter_number == 1;
}

TEST(SimplifyConvolutions, ATransposedFiltersGradientIsAPlainOne) {
  cases::Random random(3);
  int exchanged = 0;
  for (int i = 0; i < 200; ++i) {
    const auto dim = [&] {
      Dim d;
      d.stride = random.between(1, 3);
      d.dilation = random.between(1, 2);
      d.filter = random.between(1, 4);
      d.inputs = random.between(2, 5);
      d.low = random.between(0, (d.filter - 1) * d.dilation);
      d.outputs = (d.inputs - 1) * d.stride + random.between(1, 3);
      return d;
    };
    exchanged += is_exchanged(text_of(dim(), dim())) ? 1 : 0;
  }
  EXPECT_GT(exchanged, 60);
}

TEST(SimplifyConvolutions, OtherConvolutionsStay) {
  const Dim plain{.inputs = 8, .outputs = 8, .filter = 3, .low = 1};
  EXPECT_FALSE(is_exchanged(text_of(plain, plain)));  // of a plain convolution's filter
  // Of an input: the window is smaller than what comes out.
  const Dim input{.inputs = 4, .outputs = 3, .filter = 8, .stride = 2, .low = 2};
  EXPECT_FALSE(is_exchanged(text_of(input, input)));
  // The window begins behind the first place.
  const Dim behind{.inputs = 5, .outputs = 9, .filter = 2, .stride = 2, .low = 3};
  EXPECT_FALSE(is_exchanged(text_of(behind, behind)));
}

}  // namespace
}  // namespace plimsoll::passes
