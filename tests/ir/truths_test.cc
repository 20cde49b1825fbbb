// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/truths.h"

#include <gtest/gtest.h>

#include <vector>

namespace plimsoll::ir {
namespace {

TEST(Truths, AreBytesOfZeroAndOne) {
  EXPECT_TRUE(are_truths({}));
  for (const std::size_t count : {1UL, 63UL, 4096UL, 4097UL, 10000UL}) {
    std::vector<std::byte> bytes(count);
    for (std::size_t i = 0; i < count; i += 3) bytes[i] = std::byte{1};
    const std::vector<std::byte> expected = bytes;
    EXPECT_TRUE(are_truths(bytes));
    for (const std::size_t wrong : {std::size_t{0}, count / 2, count - 1}) {
      for (const unsigned value : {2U, 0x80U, 0xffU}) {
        bytes = expected;
        bytes[wrong] = static_cast<std::byte>(value);
        EXPECT_FALSE(are_truths(bytes));
        make_truths(bytes);
        EXPECT_TRUE(are_truths(bytes));
        bytes[wrong] = expected[wrong];
        EXPECT_EQ(bytes, expected);
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::ir
