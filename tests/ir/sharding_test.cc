// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/sharding.h"

#include <gtest/gtest.h>

#include <vector>

namespace plimsoll::ir {
namespace {

Sharding sharding(std::vector<std::int64_t> tiles, std::vector<std::int64_t> holders,
                  std::int64_t copies = 1) {
  return {std::move(tiles), std::move(holders), copies};
}

TEST(Sharding, ReadsWhatHloTextSays) {
  struct Case {
    const char* text;
    int rank;
    Sharding expected;
  };
  for (const Case& one :
       std::vector<Case>{{"{replicated}", 2, {}},
                         {"{maximal device=3}", 2, {}},
                         {"{manual}", 1, {}},
                         {"{devices=[2,2]<=[4]}", 2, sharding({2, 2}, {0, 1, 2, 3})},
                         {"{devices=[2,2]0,2,1,3}", 2, sharding({2, 2}, {0, 2, 1, 3})},
                         {"{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}", 2,
                          sharding({1, 2}, {0, 2, 1, 3}, 2)},
                         {"{devices=[2,1,2]<=[4] last_tile_dims={manual} metadata={op_name=\"x\"}}",
                          2, sharding({2, 1}, {0, 1, 2, 3}, 2)},
                         {"{devices=[1,1,4]<=[4] last_tile_dim_replicate}", 2, {}}}) {
    const auto read = parse_sharding(one.text, one.rank, 4);
    ASSERT_TRUE(read.ok()) << one.text << ": " << read.status().to_string();
    EXPECT_EQ(*read, one.expected) << one.text;
    const auto again = parse_sharding(to_string(*read), one.rank, 4);
    ASSERT_TRUE(again.ok()) << to_string(*read);
    EXPECT_EQ(*again, one.expected) << to_string(*read);
  }
}

TEST(Sharding, OfSummands) {
  // Those who differ in the second axis of 2 x 2 x 2 have summands, in the third copies.
  Sharding expected = sharding({2, 1}, {0, 1, 2, 3, 4, 5, 6, 7}, 4);
  expected.summands = 2;
  const std::int64_t sizes[] = {2, 2, 2};
  const std::vector<std::vector<MeshAxisPart>> by_first{{{0, 1, 0}}, {}};
  const MeshAxisPart second[] = {{1, 1, 0}};
  const auto made = mesh_sharding(sizes, by_first, {}, second);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  EXPECT_EQ(*made, expected);
  for (const char* text :
       {"{devices=[2,1,2,2]<=[8] last_tile_dims={unreduced, replicated}}",
        "{devices=[2,1,2,2]0,2,1,3,4,6,5,7 last_tile_dims={replicated, unreduced}}"}) {
    const auto read = parse_sharding(text, 2, 8);
    ASSERT_TRUE(read.ok()) << text << ": " << read.status().to_string();
    EXPECT_EQ(*read, expected) << text;
  }
  const auto again = parse_sharding(to_string(expected), 2, 8);
  ASSERT_TRUE(again.ok()) << to_string(expected);
  EXPECT_EQ(*again, expected) << to_string(expected);
  EXPECT_EQ(expected.summand_of_partition(8), (std::vector<std::int64_t>{0, 0, 1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(expected.summed(), sharding({2, 1}, {0, 1, 2, 3, 4, 5, 6, 7}, 4));
  const auto all = parse_sharding("{unreduced}", 1, 2);
  ASSERT_TRUE(all.ok());
  EXPECT_TRUE(all->is_summed() && !all->is_replicated() && all->summed().is_replicated());
}

TEST(Sharding, RefusesWhatDoesNotFit) {
  for (const char* text :
       {"", "{", "{devices=[2,2]<=[8]}", "{devices=[2,2]0,1,2}", "{devices=[2,2]0,1,2,2}",
        "{devices=[4]<=[4]}", "{devices=[0,4]<=[4]}", "{devices=[2,2]<=[4]} x",
        "{devices=[2,2]<=[2,2]T(1,1)}", "{other}", "{devices=[99999999999,99999999999]<=[4]}",
        "{devices=[2,9223372036854775810]<=[4]}", "{devices=[4,4611686018427387905]<=[4]}"}) {
    EXPECT_EQ(parse_sharding(text, 2, 4).status().code(), StatusCode::invalid_argument) << text;
  }
}

TEST(Sharding, SaysWhatDoesNotFit) {
  EXPECT_EQ(parse_sharding("{devices=[4,1]<=[4]}", 2, 1).status().message(),
            "'{devices=[4,1]<=[4]}' is for 4 partitions, and the program has 1");
  EXPECT_EQ(parse_sharding("{devices=[4]<=[4]}", 2, 4).status().message(),
            "'{devices=[4]<=[4]}' cuts 1 dimensions, and the array has 2");
}

TEST(Sharding, OfTuples) {
  const int ranks[] = {1, 0};
  const auto both = parse_shardings("{{devices=[4]<=[4]}, {replicated}}", ranks, 4);
  ASSERT_TRUE(both.ok()) << both.status().to_string();
  EXPECT_EQ(*both, (std::vector<Sharding>{sharding({4}, {0, 1, 2, 3}), {}}));
  const auto one = parse_shardings("{replicated}", ranks, 4);
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->size(), 2u);
  EXPECT_FALSE(parse_shardings("{{replicated}}", ranks, 4).ok());
}

TEST(Sharding, ByAxesOfAMesh) {
  // A mesh of 2 x 4; a dimension by the second axis, the other whole.
  const std::int64_t sizes[] = {2, 4};
  const std::vector<std::vector<MeshAxisPart>> by_second{{{1, 1, 0}}, {}};
  const auto made = mesh_sharding(sizes, by_second);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  EXPECT_EQ(*made, sharding({4, 1}, {0, 4, 1, 5, 2, 6, 3, 7}, 2));
  // One dimension by both, the second slowest.
  const std::vector<std::vector<MeshAxisPart>> by_both{{{1, 1, 0}, {0, 1, 0}}};
  const auto swapped = mesh_sharding(sizes, by_both);
  ASSERT_TRUE(swapped.ok());
  EXPECT_EQ(*swapped, sharding({8}, {0, 4, 1, 5, 2, 6, 3, 7}));
  const std::vector<std::vector<MeshAxisPart>> beyond{{{2, 1, 0}}};
  EXPECT_FALSE(mesh_sharding(sizes, beyond).ok());
}

TEST(Sharding, TilesAreEqualAndMayReachBeyondTheArray) {
  const Sharding cut = sharding({2, 2}, {0, 1, 2, 3});
  const auto tile = tile_shape(Shape(DType::f32, {4, 6}), cut);
  ASSERT_TRUE(tile.ok());
  EXPECT_EQ(*tile, Shape(DType::f32, {2, 3}));
  EXPECT_TRUE(is_even(6, cut, 1));
  const auto beyond = tile_shape(Shape(DType::f32, {4, 5}), cut);
  ASSERT_TRUE(beyond.ok());
  EXPECT_EQ(*beyond, Shape(DType::f32, {2, 3}));
  EXPECT_FALSE(is_even(5, cut, 1));
  EXPECT_TRUE(is_even(5, Sharding(), 1));
}

}  // namespace
}  // namespace plimsoll::ir
