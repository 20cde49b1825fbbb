// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "runtime/ir/interpreter/interpreter.h"
#include "tests/cases/compare.h"
#include "tests/passes/expression.h"

namespace plimsoll::passes {
namespace {

struct Summed {
  bool changed = false;
  std::string root;  // as an expression
};

// Of an entry with `lines`, that keeps what it computes.
Summed summed(const std::string& lines) {
  auto module = parse("HloModule m\nENTRY e { " + lines + " }\n");
  if (module == nullptr) return {};
  const auto arguments = cases::random_arguments(*module, 7);
  const auto expected = ir::interpret(*module, arguments);
  EXPECT_TRUE(expected.ok()) << expected.status().to_string();
  const auto changed = sum_narrow_products(*module);
  EXPECT_TRUE(changed.ok());
  EXPECT_TRUE(ir::verify(*module).ok()) << ir::verify(*module).message();
  const auto actual = ir::interpret(*module, arguments);
  EXPECT_TRUE(actual.ok()) << actual.status().to_string();
  EXPECT_EQ(cases::compare_close(*expected, *actual, 1e-2), "");
  return {*changed, expression(*module->entry()->root())};
}

const std::string kWeights =
    "w = s8[128,256] parameter(1)\n f = f32[128,256] convert(w)\n s = f32[256] parameter(2)\n"
    "b = f32[128,256] broadcast(s), dimensions={1}\n m = f32[128,256] multiply(f, b)\n";

TEST(NarrowProducts, OfOneRowAreASum) {
  const Summed made =
      summed("x = f32[1,128] parameter(0)\n" + kWeights +
             "ROOT y = f32[1,256] dot(x, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}");
  EXPECT_TRUE(made.changed);
  EXPECT_EQ(made.root,
            "reshape(reduce(multiply(broadcast(reshape(slice(p0))), multiply(convert(p1), "
            "broadcast(p2))), 0))");
}

// Rows on either side, several dims of them and of columns, whatever dim is summed over.
TEST(NarrowProducts, OfFewRowsKeepTheDimsOfTheResult) {
  const std::vector<std::string> programs = {
      "x = f32[4,128] parameter(0)\n" + kWeights +
          "ROOT y = f32[4,256] dot(x, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
      "x = f32[3,128] parameter(0)\n" + kWeights +
          "ROOT y = f32[256,3] dot(m, x), lhs_contracting_dims={0}, rhs_contracting_dims={1}",
      "x = f32[2,256,2] parameter(0)\n" + kWeights +
          "ROOT y = f32[2,2,128] dot(x, m), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
      "x = f32[256] parameter(0)\n" + kWeights +
          "ROOT y = f32[128] dot(m, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
      "x = bf16[2,64] parameter(0)\n w = s8[8,64,128] parameter(1)\n"
      "f = bf16[8,64,128] convert(w)\n ROOT y = bf16[2,8,128] dot(x, f), "
      "lhs_contracting_dims={1}, rhs_contracting_dims={1}"};
  for (const std::string& program : programs) EXPECT_TRUE(summed(program).changed) << program;
}

// CPUs have no products of f16.
TEST(NarrowProducts, OfF16AreSumsWhereAsked) {
  auto module = parse(
      "HloModule m\nENTRY e { x = f16[1,128] parameter(0)\n w = f16[128,256] parameter(1)\n"
      "ROOT y = f16[1,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} }");
  EXPECT_FALSE(*sum_narrow_products(*module, NarrowProducts::converted));
  EXPECT_TRUE(*sum_narrow_products(*module));
  EXPECT_TRUE(ir::verify(*module).ok());
  EXPECT_EQ(expression(*module->entry()->root()),
            "convert(reshape(reduce(multiply(broadcast(reshape(slice(convert(p0)))), "
            "convert(p1)), 0)))");
}

TEST(NarrowProducts, OthersAreLeft) {
  const std::string dot =
      "ROOT y = f32[1,256] dot(x, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
  const std::vector<std::string> programs = {
      // Too many rows.
      "x = f32[5,128] parameter(0)\n" + kWeights +
          "ROOT y = f32[5,256] dot(x, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
      // As wide as they are read.
      "x = f32[1,128] parameter(0)\n m = f32[128,256] parameter(1)\n" + dot,
      "x = f32[1,128] parameter(0)\n w = f32[128,256] parameter(1)\n"
      "m = f32[128,256] negate(w)\n" +
          dot,
      // Something else needs them wide.
      "x = f32[1,128] parameter(0)\n" + kWeights +
          "y = f32[1,256] dot(x, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
          "ROOT t = (f32[1,256], f32[128,256]) tuple(y, m)",
      // Not worth it.
      "x = f32[1,128] parameter(0)\n w = s8[128,32] parameter(1)\n m = f32[128,32] convert(w)\n"
      "ROOT y = f32[1,32] dot(x, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
      // A batch of products.
      "x = f32[2,1,128] parameter(0)\n w = s8[2,128,256] parameter(1)\n"
      "m = f32[2,128,256] convert(w)\n ROOT y = f32[2,1,256] dot(x, m), lhs_batch_dims={0}, "
      "rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"};
  for (const std::string& program : programs) EXPECT_FALSE(summed(program).changed) << program;
}

}  // namespace
}  // namespace plimsoll::passes
