// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/literal.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace plimsoll::ir {
namespace {

TEST(Literal, BorrowsBytesForAsLongAsACopyLives) {
  auto owner = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3});
  const std::weak_ptr<const std::vector<float>> watch = owner;
  const float* const data = owner->data();
  auto literal = std::make_unique<Literal>(
      Literal::borrowed(Shape(DType::f32, {3}), owner, std::as_bytes(std::span(*owner))));
  owner = nullptr;
  const Literal copy = *literal;
  literal = nullptr;
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(copy.data<float>(), data);
  EXPECT_EQ(copy.at(2), 3);
  EXPECT_FALSE(copy.is_splat());
}

TEST(Literal, CopiesBorrowedBytesBeforeTheyChange) {
  auto owner = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3});
  const Literal original =
      Literal::borrowed(Shape(DType::f32, {3}), owner, std::as_bytes(std::span(*owner)));
  Literal changed = original;
  changed.set(0, 7);
  EXPECT_EQ(owner->at(0), 1);
  EXPECT_EQ(original.at(0), 1);
  EXPECT_EQ(changed.at(0), 7);
  EXPECT_EQ(changed.at(1), 2);
  EXPECT_FALSE(original == changed);
  changed.set(0, 1);
  EXPECT_TRUE(original == changed);
}

}  // namespace
}  // namespace plimsoll::ir
