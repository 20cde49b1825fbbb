// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector_loops.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <random>
#include <vector>

namespace plimsoll::kernels {
namespace {

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

TEST(VectorLoops, EveryF16BecomesTheF32OfItsOwn) {
  std::vector<Float16> halves(1 << 16);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i].bits = static_cast<std::uint16_t>(i);
  std::vector<float> wide(halves.size());
  from_f16(halves.data(), wide.data(), std::ssize(halves));
  for (std::size_t i = 0; i < halves.size(); ++i) {
    float alone = 0;
    from_f16(&halves[i], &alone, 1);  // too few for a vector
    ASSERT_EQ(bits_of(wide[i]), bits_of(alone)) << i;
    ASSERT_EQ(bits_of(wide[i]), bits_of(static_cast<float>(halves[i]))) << i;
  }
}

// Around every f16, halfway to the next one, and anything, NaNs of every kind among them.
TEST(VectorLoops, F32IsRoundedToF16AsTheTypeDoesIt) {
  std::vector<float> values;
  for (std::uint32_t i = 0; i < (1U << 16); ++i) {
    Float16 half;
    half.bits = static_cast<std::uint16_t>(i);
    const std::uint32_t bits = bits_of(static_cast<float>(half));
    for (const std::uint32_t offset : {0U, 1U, 0xfffU, 0x1000U, 0x1001U, 0x1fffU}) {
      values.push_back(std::bit_cast<float>(bits + offset));
    }
  }
  std::mt19937 random(7);
  for (int i = 0; i < 300000; ++i) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random()) | 0x7f800000U));
  }
  std::vector<Float16> halves(values.size());
  to_f16(values.data(), halves.data(), std::ssize(values));
  for (std::size_t i = 0; i < values.size(); ++i) {
    Float16 alone;
    to_f16(&values[i], &alone, 1);
    ASSERT_EQ(halves[i].bits, alone.bits) << std::hex << bits_of(values[i]);
    ASSERT_EQ(halves[i].bits, Float16(values[i]).bits) << std::hex << bits_of(values[i]);
  }
}

TEST(VectorLoops, PlacesBehindTheLastElementAreLeftAlone) {
  for (int count = 0; count < 20; ++count) {
    const std::vector<float> wide(20, 1.5F);
    std::vector<Float16> halves(21);
    to_f16(wide.data(), halves.data() + 1, count);
    std::vector<float> back(21, 7);
    from_f16(halves.data() + 1, back.data() + 1, count);
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(static_cast<float>(halves[static_cast<std::size_t>(i + 1)]), i < count ? 1.5F : 0);
      EXPECT_EQ(back[static_cast<std::size_t>(i + 1)], i < count ? 1.5F : 7);
    }
  }
}

}  // namespace
}  // namespace plimsoll::kernels
