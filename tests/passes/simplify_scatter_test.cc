// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/shapes/verifier.h"
#include "tests/cases/compare.h"
#include "tests/passes/expression.h"

namespace plimsoll::passes {
namespace {

std::int64_t count_of(const ir::Module& module, ir::Opcode opcode) {
  const auto& all = module.entry()->instructions();
  return std::count_if(all.begin(), all.end(),
                       [&](const auto& one) { return one->opcode() == opcode; });
}

// A scatter with these arguments; whether it becomes an update, which has its bits at indices
// inside, at the edges and outside.
bool becomes_an_update(const std::string& operand, const std::string& indices,
                       const std::string& updates, const std::string& dimensions,
                       const std::string& combined) {
  const std::string scalar = operand.substr(0, operand.find('[')) + "[]";
  const std::string root =
      combined == "parameter(1)" ? "" : " ROOT r = " + scalar + " " + combined + "\n";
  const std::string text = "HloModule m\ncombine {\n a = " + scalar + " parameter(0)\n " +
                           (combined == "parameter(1)" ? "ROOT " : "") + "b = " + scalar +
                           " parameter(1)\n c = " + scalar + " add(a, b)\n" + root +
                           "}\nENTRY e {\n x = " + operand + " parameter(0)\n i = " + indices +
                           " parameter(1)\n u = " + updates +
                           " parameter(2)\n ROOT r = " + operand + " scatter(x, i, u), " +
                           dimensions + ", to_apply=combine\n}\n";
  const auto before = parse(text), after = parse(text);
  if (before == nullptr) return false;
  EXPECT_TRUE(simplify(*after).ok());
  EXPECT_TRUE(ir::verify(*after).ok()) << ir::to_text(*after);
  auto arguments = cases::random_arguments(*before, 7);
  for (const int first : {-1000000, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 1000000}) {
    for (std::int64_t k = 0; k < arguments[1].shape().element_count(); ++k) {
      arguments[1].set(k, k == 0 ? first : 1);
    }
    const auto expected = ir::interpret(*before, arguments);
    const auto got = ir::interpret(*after, arguments);
    EXPECT_TRUE(expected.ok() && got.ok());
    if (expected.ok() && got.ok()) {
      EXPECT_EQ(cases::compare_bits(*expected, *got), "") << text << "first " << first;
    }
  }
  const bool is_update = count_of(*after, ir::Opcode::dynamic_update_slice) == 1;
  EXPECT_NE(is_update, count_of(*after, ir::Opcode::scatter) == 1);
  return is_update;
}

constexpr char kElement[] =
    "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
    "index_vector_dim=0";

TEST(SimplifyScatter, OneElementIsAnUpdate) {
  for (const char* combined : {"parameter(1)", "add(a, b)", "maximum(a, b)"}) {
    EXPECT_TRUE(becomes_an_update("f32[6]", "s32[1]", "f32[]", kElement, combined)) << combined;
  }
  EXPECT_TRUE(becomes_an_update("s8[6]", "s64[1]", "s8[]", kElement, "add(a, b)"));
  EXPECT_TRUE(becomes_an_update("f32[6]", "u32[1]", "f32[]", kElement, "minimum(a, b)"));
}

TEST(SimplifyScatter, SoAreOneRowAndOneBlock) {
  EXPECT_TRUE(becomes_an_update(
      "f32[6,5]", "s32[1]", "f32[5]",
      "update_window_dims={0}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
      "index_vector_dim=0",
      "add(a, b)"));
  // A block of 2 x 3 by two indices, of the columns first; one that lies partly outside is left
  // out.
  EXPECT_TRUE(becomes_an_update(
      "f32[4,6]", "s32[1,2]", "f32[1,2,3]",
      "update_window_dims={1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={1,0}, "
      "index_vector_dim=1",
      "add(a, b)"));
}

TEST(SimplifyScatter, OthersStay) {
  EXPECT_FALSE(becomes_an_update(
      "f32[6]", "s32[2,1]", "f32[2]",
      "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
      "index_vector_dim=1",
      "add(a, b)"));
  EXPECT_FALSE(becomes_an_update("f32[6]", "s32[1]", "f32[]", kElement, "subtract(a, c)"));
}

}  // namespace
}  // namespace plimsoll::passes
