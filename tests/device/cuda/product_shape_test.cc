// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/product_shape.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/cuda/product.h"
#include "runtime/ir/text/text.h"

namespace plimsoll::kernels::cuda {
namespace {

// Of a dot of arrays of these shapes.
std::optional<ProductShape> shape_of(const std::string& lhs, const std::string& rhs,
                                     const std::string& result, const std::string& dims) {
  const auto module =
      ir::parse_module("HloModule m\nENTRY e {\n  a = " + lhs + " parameter(0)\n  b = " + rhs +
                           " parameter(1)\n  ROOT r = " + result + " dot(a, b), " + dims + "\n}\n",
                       "product");
  if (!module.ok()) {
    ADD_FAILURE() << module.status().to_string();
    return std::nullopt;
  }
  return read_product(*(*module)->entry()->root());
}

TEST(ProductShape, AMatrixIsTakenAsItLies) {
  const auto plain = shape_of("f32[6,5]", "f32[5,7]", "f32[6,7]",
                              "lhs_contracting_dims={1}, rhs_contracting_dims={0}");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->m, 6);
  EXPECT_EQ(plain->n, 7);
  EXPECT_EQ(plain->k, 5);
  EXPECT_EQ(plain->batch, 1);
  EXPECT_EQ(plain->lhs, (ProductOperand{false, 5, 0}));
  EXPECT_EQ(plain->rhs, (ProductOperand{false, 7, 0}));
  const auto turned = shape_of("f32[5,6]", "f32[7,5]", "f32[6,7]",
                               "lhs_contracting_dims={0}, rhs_contracting_dims={1}");
  ASSERT_TRUE(turned);
  EXPECT_EQ(turned->lhs, (ProductOperand{true, 6, 0}));
  EXPECT_EQ(turned->rhs, (ProductOperand{true, 5, 0}));
}

TEST(ProductShape, DimsThatLieTogetherAreOne) {
  // Two free dims on the left, two contracted ones.
  const auto shape = shape_of("bf16[2,3,4,5]", "bf16[4,5,7]", "f32[2,3,7]",
                              "lhs_contracting_dims={2,3}, rhs_contracting_dims={0,1}");
  ASSERT_TRUE(shape);
  EXPECT_EQ(shape->m, 6);
  EXPECT_EQ(shape->n, 7);
  EXPECT_EQ(shape->k, 20);
  // The other order of the contracted dims lies together on no side.
  EXPECT_FALSE(shape_of("bf16[2,3,4,5]", "bf16[5,4,7]", "f32[2,3,7]",
                        "lhs_contracting_dims={2,3}, rhs_contracting_dims={1,0}"));
}

TEST(ProductShape, BatchesHaveOneStrideOrTurns) {
  const auto batches = shape_of("f32[2,3,4,5]", "f32[2,3,5,6]", "f32[2,3,4,6]",
                                "lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, "
                                "lhs_contracting_dims={3}, rhs_contracting_dims={2}");
  ASSERT_TRUE(batches);
  EXPECT_EQ(batches->batch, 6);
  EXPECT_EQ(batches->lhs.batch_stride, 20);
  EXPECT_EQ(batches->rhs.batch_stride, 30);
  EXPECT_EQ(batches->result_batch_stride, 24);
  EXPECT_TRUE(batches->turns.empty());
  // Heads beside each other: queries [batch, place, head, depth], as in attention.
  const auto heads = shape_of("f32[2,7,3,4]", "f32[2,9,3,4]", "f32[2,3,7,9]",
                              "lhs_batch_dims={0,2}, rhs_batch_dims={0,2}, "
                              "lhs_contracting_dims={3}, rhs_contracting_dims={3}");
  ASSERT_TRUE(heads);
  EXPECT_EQ(heads->batch, 3);
  EXPECT_EQ(heads->lhs, (ProductOperand{false, 12, 4}));
  EXPECT_EQ(heads->rhs, (ProductOperand{true, 12, 4}));
  EXPECT_EQ(heads->result_batch_stride, 63);
  ASSERT_EQ(heads->turns.size(), 1U);
  EXPECT_EQ(heads->turns[0], (ProductTurn{2, 84, 108, 189}));
  EXPECT_EQ(heads->calls(), 2);
  // More heads than pictures: the longer one is a call's.
  const auto many = shape_of("f32[64,7,3,4]", "f32[64,9,3,4]", "f32[64,3,7,9]",
                             "lhs_batch_dims={0,2}, rhs_batch_dims={0,2}, "
                             "lhs_contracting_dims={3}, rhs_contracting_dims={3}");
  ASSERT_TRUE(many);
  EXPECT_EQ(many->batch, 64);
  EXPECT_EQ(many->calls(), 3);
  // Too many calls.
  EXPECT_FALSE(shape_of("f32[64,7,64,4]", "f32[64,9,64,4]", "f32[64,64,7,9]",
                        "lhs_batch_dims={0,2}, rhs_batch_dims={0,2}, "
                        "lhs_contracting_dims={3}, rhs_contracting_dims={3}"));
}

// Forms of a program differ in these (drop_unit_dims): a product must not.
TEST(ProductShape, DimsOfSizeOneChangeNothing) {
  const auto plain = shape_of("f32[6,5]", "f32[5,7]", "f32[6,7]",
                              "lhs_contracting_dims={1}, rhs_contracting_dims={0}");
  ASSERT_TRUE(plain);
  EXPECT_EQ(shape_of("f32[1,6,1,5]", "f32[5,1,7]", "f32[1,6,1,1,7]",
                     "lhs_contracting_dims={3}, rhs_contracting_dims={0}"),
            plain);
  EXPECT_EQ(shape_of("f32[6,1,5,1]", "f32[1,5,7,1]", "f32[1,6,7]",
                     "lhs_batch_dims={1}, rhs_batch_dims={0}, lhs_contracting_dims={2,3}, "
                     "rhs_contracting_dims={1,3}"),
            plain);
  EXPECT_EQ(shape_of("f32[1,6,1,5]", "f32[1,5,1,7]", "f32[1,6,7]",
                     "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2,3}, "
                     "rhs_contracting_dims={2,1}"),
            plain);
  const auto vector = shape_of("f32[5]", "f32[5,7]", "f32[7]",
                               "lhs_contracting_dims={0}, rhs_contracting_dims={0}");
  ASSERT_TRUE(vector);
  EXPECT_EQ(vector->m, 1);
  EXPECT_EQ(shape_of("f32[1,5]", "f32[5,7]", "f32[1,7]",
                     "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
            vector);
  EXPECT_EQ(shape_of("f32[5,1]", "f32[5,7]", "f32[1,7]",
                     "lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
            vector);
}

TEST(ProductShape, DtypesThatAreNotMultipliedHaveNone) {
  const std::string dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
  EXPECT_TRUE(shape_of("f64[6,5]", "f64[5,7]", "f64[6,7]", dims));
  EXPECT_TRUE(shape_of("f16[6,5]", "f16[5,7]", "f32[6,7]", dims));
  EXPECT_TRUE(shape_of("s8[6,5]", "s8[5,7]", "s32[6,7]", dims));
  EXPECT_FALSE(shape_of("s8[6,200000]", "s8[200000,7]", "s32[6,7]", dims)) << "sums may overflow";
  EXPECT_FALSE(shape_of("s32[6,5]", "s32[5,7]", "s32[6,7]", dims));
  EXPECT_FALSE(shape_of("f32[6,5]", "bf16[5,7]", "f32[6,7]", dims));
  EXPECT_FALSE(shape_of("f32[6,0]", "f32[0,7]", "f32[6,7]", dims)) << "sums of nothing";
}

TEST(ProductShape, WorkspaceIsAShareOfWhatIsMultiplied) {
  const std::string dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
  EXPECT_EQ(most_workspace_bytes(*shape_of("f32[64,64]", "f32[64,64]", "f32[64,64]", dims)),
            3 * 64 * 64 * 4 / 2);
  EXPECT_EQ(most_workspace_bytes(
                *shape_of("f32[16384,16384]", "f32[16384,16384]", "f32[16384,16384]", dims)),
            std::int64_t{32} << 20);
}

}  // namespace
}  // namespace plimsoll::kernels::cuda
