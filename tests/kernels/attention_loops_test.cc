// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/cpu/attention/attention_bf16_loops.h"
#include "kernels/cpu/tile_registers.h"
#include "runtime/base/float16.h"

namespace plimsoll::kernels {
namespace {

struct PairSizes {
  std::int64_t rows, columns, pairs;
};
constexpr PairSizes kPairSizes[] = {{1, 16, 1},    {7, 32, 16},   {16, 48, 17}, {31, 16, 5},
                                    {32, 64, 32},  {33, 80, 33},  {64, 64, 32}, {50, 64, 40},
                                    {64, 64, 300}, {40, 16, 256}, {64, 16, 272}};

// Whole numbers add up exactly, so that loops of all instruction sets give the same.
TEST(AttentionLoops, MultiplyPairsOfBf16TheSameByVectorsAndByTiles) {
  const Bf16Loops* const vectors = bf16_vector_loops();
  const Bf16Loops* const tiles = bf16_tile_loops();
  if (tiles == nullptr) GTEST_SKIP() << "this machine has no tiles of bf16, or may not use them";
  EXPECT_EQ(bf16_loops(), tiles);
  std::mt19937 random(1);
  const auto whole = [&] {
    return Bfloat16(static_cast<float>(static_cast<int>(random() % 15) - 7));
  };
  for (const auto& [rows, columns, pairs] : kPairSizes) {
    for (const bool by_rows : {true, false}) {  // pairs of a row lie together, or rows of a pair
      for (const bool add : {true, false}) {
        std::vector<Bfloat16> a(static_cast<std::size_t>(2 * rows * pairs)),
            b(static_cast<std::size_t>(2 * columns * pairs));
        for (Bfloat16& x : a) x = whole();
        for (Bfloat16& x : b) x = whole();
        std::vector<float> sums(static_cast<std::size_t>(rows * columns));
        for (float& x : sums) x = static_cast<float>(whole());
        std::vector<float> expected = sums;
        const std::int64_t row = by_rows ? 2 * pairs : 2, column = by_rows ? 2 : 2 * rows;
        const auto run = [&](const Bf16Loops& loops, std::vector<float>& to) {
          const TileScope registers(loops.uses_tiles);
          loops.multiply(to.data(), columns, reinterpret_cast<const std::uint16_t*>(a.data()), row,
                         column, reinterpret_cast<const std::uint32_t*>(b.data()), columns, rows,
                         columns, pairs, add);
        };
        run(*vectors, expected);
        run(*tiles, sums);
        EXPECT_EQ(sums, expected) << rows << " " << columns << " " << pairs << " " << by_rows
                                  << add;
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::kernels
