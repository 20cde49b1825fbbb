// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/literal.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
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

TEST(Literal, DeferredBytesAreMadeWhenTheyAreAskedForAndMayBeForgotten) {
  int made = 0;
  const Literal literal =
      Literal::deferred(Shape(DType::f32, {3}), [&made](std::span<std::byte> to) {
        const float values[] = {1, 2, 3};
        std::memcpy(to.data(), values, sizeof values);
        ++made;
      });
  const Literal other = literal.reshaped(Shape(DType::f32, {3, 1}));
  EXPECT_EQ(made, 0);
  // For whoever holds them alone, and where they are wanted.
  EXPECT_EQ(reinterpret_cast<const float*>(literal.held_bytes().get())[2], 3);
  float copy[3] = {};
  literal.copy_to(std::as_writable_bytes(std::span(copy)));
  EXPECT_EQ(copy[1], 2);
  EXPECT_EQ(made, 2);
  // For all from then on.
  EXPECT_EQ(literal.at(2), 3);
  EXPECT_EQ(other.data<float>(), literal.data<float>());
  const auto held = other.held_bytes();
  EXPECT_EQ(held.get(), literal.bytes().data());
  EXPECT_EQ(made, 3);
  literal.forget();
  EXPECT_EQ(reinterpret_cast<const float*>(held.get())[0], 1);
  EXPECT_EQ(other.at(0), 1);
  EXPECT_EQ(made, 4);
  // One that nobody has read has its own.
  EXPECT_EQ(literal.unread().at(1), 2);
  EXPECT_EQ(made, 5);
  Literal changed = literal;
  changed.set(0, 7);
  EXPECT_EQ(literal.at(0), 1);
  EXPECT_EQ(changed.at(0), 7);
  EXPECT_FALSE(changed.is_kept_elsewhere());
  EXPECT_EQ(made, 5);
}

}  // namespace
}  // namespace plimsoll::ir
