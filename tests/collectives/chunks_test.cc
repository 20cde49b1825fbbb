// SPDX-License-Identifier: Apache-2.0
#include "collectives/chunks.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace plimsoll::collectives {
namespace {

constexpr std::int64_t kKilo = 1 << 10, kMega = 1 << 20;

// Of what is small, as much as fits goes together, whatever stands between.
TEST(Chunks, SmallArraysShareMessagesThatLargeOnesDoNotPart) {
  std::vector<Extent> arrays;
  for (int i = 0; i < 8; ++i) {
    arrays.push_back({600 * kKilo, 4});
    arrays.push_back({100 * kKilo + 4, 4});
  }
  const std::vector<Chunk> chunks = cut_chunks(arrays, kMega);
  ASSERT_EQ(chunks.size(), 9u);
  for (std::size_t i = 0; i < 8; ++i) {
    ASSERT_EQ(chunks[i].parts.size(), 1u);
    EXPECT_EQ(chunks[i].parts[0].array, 2 * i);
    EXPECT_EQ(chunks[i].bytes, 600 * kKilo);
  }
  EXPECT_EQ(chunks[8].parts.size(), 8u);
}

TEST(Chunks, HoldEveryElementOnceAndNoneIsParted) {
  const std::vector<Extent> arrays = {{0, 4}, {12, 4}, {3 * kMega, 16}, {256 * kKilo, 2}, {5, 1}};
  const std::vector<Chunk> chunks = cut_chunks(arrays, 100'000);
  std::vector<std::int64_t> seen(arrays.size());
  for (const Chunk& chunk : chunks) {
    EXPECT_LE(chunk.bytes, 100'000);
    std::int64_t end = 0;
    for (const Chunk::Part& part : chunk.parts) {
      EXPECT_EQ(part.begin, seen[part.array]);
      EXPECT_EQ((part.end - part.begin) % arrays[part.array].element, 0);
      EXPECT_EQ(part.place % 64, 0);
      EXPECT_GE(part.place, end);
      end = part.place + part.end - part.begin;
      seen[part.array] = part.end;
    }
    EXPECT_EQ(chunk.bytes, end);
  }
  for (std::size_t i = 0; i < arrays.size(); ++i) EXPECT_EQ(seen[i], arrays[i].bytes);
}

}  // namespace
}  // namespace plimsoll::collectives
