// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "runtime/ir/shapes/verifier.h"
#include "runtime/ir/text/text.h"
#include "runtime/passes/passes.h"
#include "tests/passes/expression.h"

namespace plimsoll::passes {
namespace {

std::string turned(const std::string& entry) {
  const auto module = parse("HloModule m\n" + entry);
  const Result<bool> changed = turn_products(*module);
  EXPECT_TRUE(changed.ok()) << changed.status().to_string();
  EXPECT_TRUE(ir::verify(*module).ok()) << ir::verify(*module).to_string();
  const std::string all = ir::to_text(*module);
  return all.substr(all.find("ENTRY"));
}

TEST(TurnProducts, AProductThatIsOnlyReadTransposedIsComputedSo) {
  EXPECT_EQ(turned(R"(
ENTRY e {
  a = f32[5,7,3] parameter(0)
  b = f32[7,5,4] parameter(1)
  d = f32[3,4] dot(a, b), lhs_contracting_dims={0,1}, rhs_contracting_dims={1,0}
  ROOT t = f32[4,3] transpose(d), dimensions={1,0}
})"),
            R"(ENTRY %e (a: f32[5,7,3], b: f32[7,5,4]) -> f32[4,3] {
  %a = f32[5,7,3] parameter(0)
  %b = f32[7,5,4] parameter(1)
  ROOT %dot = f32[4,3] dot(%b, %a), lhs_contracting_dims={1,0}, rhs_contracting_dims={0,1}
}
)");
}

TEST(TurnProducts, BatchDimsStayInFront) {
  EXPECT_EQ(turned(R"(
ENTRY e {
  a = f32[2,3,6,7] parameter(0)
  b = f32[7,2,4] parameter(1)
  d = f32[2,3,6,4] dot(a, b), lhs_batch_dims={0}, lhs_contracting_dims={3}, rhs_batch_dims={1}, rhs_contracting_dims={0}
  ROOT t = f32[2,4,3,6] transpose(d), dimensions={0,3,1,2}
})"),
            R"(ENTRY %e (a: f32[2,3,6,7], b: f32[7,2,4]) -> f32[2,4,3,6] {
  %a = f32[2,3,6,7] parameter(0)
  %b = f32[7,2,4] parameter(1)
  ROOT %dot = f32[2,4,3,6] dot(%b, %a), lhs_batch_dims={1}, lhs_contracting_dims={0}, rhs_batch_dims={0}, rhs_contracting_dims={3}
}
)");
}

TEST(TurnProducts, MatricesThatAreOnlyTransposedForProductsAreReadAsTheyWere) {
  EXPECT_EQ(turned(R"(
ENTRY e {
  x = f32[2,3,7] parameter(0)
  w = f32[2,4,7] parameter(1)
  t = f32[2,7,4] transpose(w), dimensions={0,2,1}
  d = f32[2,3,4] dot(x, t), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}
  ROOT r = f32[2,7,3] dot(t, d), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={2}
})"),
            R"(ENTRY %e (x: f32[2,3,7], w: f32[2,4,7]) -> f32[2,7,3] {
  %x = f32[2,3,7] parameter(0)
  %w = f32[2,4,7] parameter(1)
  %dot = f32[2,3,4] dot(%x, %w), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={2}
  ROOT %dot.1 = f32[2,7,3] dot(%w, %dot), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, rhs_contracting_dims={2}
}
)");
}

TEST(TurnProducts, AProductOfAMatrixAndItselfTransposedReadsItTwice) {
  EXPECT_EQ(turned(R"(
ENTRY e {
  x = f32[3,7] parameter(0)
  t = f32[7,3] transpose(x), dimensions={1,0}
  ROOT d = f32[3,3] dot(x, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})"),
            R"(ENTRY %e (x: f32[3,7]) -> f32[3,3] {
  %x = f32[3,7] parameter(0)
  ROOT %dot = f32[3,3] dot(%x, %x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
}
)");
}

TEST(TurnProducts, OtherReadersAndOtherOrdersStay) {
  for (const char* entry : {R"(
ENTRY e {
  a = f32[5,3] parameter(0)
  b = f32[5,3] parameter(1)
  d = f32[3,3] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  t = f32[3,3] transpose(d), dimensions={1,0}
  ROOT s = f32[3,3] add(t, d)
})",
                            R"(
ENTRY e {
  a = f32[2,3,7] parameter(0)
  b = f32[2,7,4] parameter(1)
  d = f32[2,3,4] dot(a, b), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}
  ROOT t = f32[3,2,4] transpose(d), dimensions={1,0,2}
})",
                            R"(
ENTRY e {
  a = f32[3,6,7] parameter(0)
  b = f32[7] parameter(1)
  d = f32[3,6] dot(a, b), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  ROOT t = f32[6,3] transpose(d), dimensions={1,0}
})",
                            R"(
ENTRY e {
  x = f32[3,7] parameter(0)
  w = f32[4,7] parameter(1)
  t = f32[7,4] transpose(w), dimensions={1,0}
  d = f32[3,4] dot(x, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (f32[3,4], f32[7,4]) tuple(d, t)
})",
                            R"(
ENTRY e {
  x = f32[2,3,7] parameter(0)
  w = f32[4,2,7] parameter(1)
  t = f32[2,7,4] transpose(w), dimensions={1,2,0}
  ROOT d = f32[2,3,4] dot(x, t), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}
})"}) {
    const auto module = parse(std::string("HloModule m\n") + entry);
    const Result<bool> changed = turn_products(*module);
    ASSERT_TRUE(changed.ok()) << changed.status().to_string();
    EXPECT_FALSE(*changed) << entry;
  }
}

}  // namespace
}  // namespace plimsoll::passes
