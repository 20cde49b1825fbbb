// SPDX-License-Identifier: Apache-2.0
// Room side by side, in one range of addresses in which nothing moves.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/eviction/range_evictor.h"
#include "tests/memory/evictor_lab.h"

namespace plimsoll::memory {
namespace {

using End = AddressRange::End;

std::vector<std::pair<std::int64_t, AddressRange::Owner>> blocks_of(const AddressRange& range) {
  std::vector<std::pair<std::int64_t, AddressRange::Owner>> blocks;
  for (const auto& [offset, block] : range.blocks()) blocks.emplace_back(block.bytes, block.owner);
  return blocks;
}

TEST(AddressRange, TakesTheHoleNearestToAnEnd) {
  AddressRange range(100);
  ASSERT_TRUE(range.take(1, 30, End::low));
  ASSERT_TRUE(range.take(2, 20, End::high));
  ASSERT_TRUE(range.take(3, 10, End::low));
  ASSERT_TRUE(range.take(4, 40, End::high));
  using Blocks = std::vector<std::pair<std::int64_t, AddressRange::Owner>>;
  EXPECT_EQ(blocks_of(range), (Blocks{{30, 1}, {10, 3}, {40, 4}, {20, 2}}));
  EXPECT_FALSE(range.take(5, 1, End::low));
  range.give_back(1);
  range.give_back(2);
  EXPECT_FALSE(range.take(5, 40, End::low));  // 50 bytes, but apart
  EXPECT_FALSE(range.has(5));
  range.give_back(3);
  ASSERT_TRUE(range.take(5, 40, End::low));
  EXPECT_EQ(blocks_of(range), (Blocks{{40, 5}, {40, 4}, {20, AddressRange::kNobody}}));
}

TEST(AddressRange, HolesGrowTogether) {
  std::mt19937 random(7);
  AddressRange range(1000);
  std::vector<AddressRange::Owner> owners;
  std::int64_t taken = 0;
  for (AddressRange::Owner next = 0; next < 3000; ++next) {
    const std::int64_t bytes = 1 + static_cast<std::int64_t>(random() % 60);
    if (range.take(next, bytes, random() % 2 == 0 ? End::low : End::high)) {
      owners.push_back(next);
      taken += bytes;
    }
    if (owners.size() > random() % 30) {
      const std::size_t which = random() % owners.size();
      for (const auto& [offset, block] : range.blocks()) {
        if (block.owner == owners[which]) taken -= block.bytes;
      }
      range.give_back(owners[which]);
      owners.erase(owners.begin() + static_cast<std::ptrdiff_t>(which));
    }
    std::int64_t end = 0, holes = 0;
    bool after_hole = false;
    for (const auto& [offset, block] : range.blocks()) {
      ASSERT_EQ(offset, end);
      ASSERT_GT(block.bytes, 0);
      const bool hole = block.owner == AddressRange::kNobody;
      ASSERT_FALSE(hole && after_hole);
      after_hole = hole;
      if (hole) holes += block.bytes;
      end += block.bytes;
    }
    ASSERT_EQ(end, 1000);
    ASSERT_EQ(holes, 1000 - taken);
  }
}

// Every other block is cheap: two of these make no room, one and its neighbour do.
TEST(EvictorRange, GivesUpNeighbours) {
  std::int64_t evictions[2] = {};
  for (const auto holes : {RangeEvictor::Holes::windows, RangeEvictor::Holes::scattered}) {
    Lineage lineage;
    RangeEvictor evictor(lineage, 800, holes);
    // Without arguments all are placed from the low end.
    for (int i = 0; i < 8; ++i) add_run(lineage, evictor, i % 2 == 0 ? 1 : 2, {}, 100);
    EXPECT_EQ(evictor.statistics().evictions, 0);
    add_run(lineage, evictor, 1, {}, 200);
    EXPECT_LE(lineage.used_bytes(), 800);
    evictions[holes == RangeEvictor::Holes::scattered] = evictor.statistics().evictions;
  }
  EXPECT_EQ(evictions[0], 2);
  EXPECT_GT(evictions[1], 2);
}

TEST(EvictorRange, WhatIsPinnedStaysWhereItIs) {
  Lineage lineage;
  RangeEvictor evictor(lineage, 500, RangeEvictor::Holes::windows);
  std::vector<TensorId> made;
  for (int i = 0; i < 5; ++i) made.push_back(add_run(lineage, evictor, 1, {}, 100));
  evictor.pin(made[2]);
  const Lineage::Output wide[] = {{250, -1}};
  const OperationId impossible = lineage.add(1, {}, wide);
  const Status status = evictor.run(impossible);
  EXPECT_EQ(status.code(), StatusCode::resource_exhausted);
  EXPECT_NE(status.message().find("side by side"), std::string::npos) << status.message();
  EXPECT_TRUE(lineage.tensor(made[2]).defined);
  add_run(lineage, evictor, 1, {}, 200);
  for (const TensorId tensor : made) EXPECT_TRUE(evictor.restore(tensor).ok());
}

TEST(EvictorRange, RunsRandomProgramsUnderTheLimit) {
  std::int64_t runs = 0, failures = 0, recomputes = 0;
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    RandomProgram program(seed);
    Lineage lineage;
    const std::int64_t limit = 700 + static_cast<std::int64_t>(seed % 8) * 150;
    Device device(lineage, limit);
    RangeEvictor evictor(
        lineage, limit,
        seed % 2 == 0 ? RangeEvictor::Holes::windows : RangeEvictor::Holes::scattered, &device);
    for (int step = 0; step < 120; ++step) {
      const OperationId id = program.add(lineage);
      const Status status = evictor.run(id);
      if (status.ok()) device.ran(id);
      ++runs;
      failures += !status.ok();
      if (!status.ok()) program.take_back(id, lineage, evictor);
      ASSERT_EQ(lineage.used_bytes(), device.used()) << "seed " << seed << " step " << step;
      // All that is there has its addresses, and nothing else has.
      std::int64_t placed = 0;
      for (const auto& [offset, block] : evictor.range().blocks()) {
        if (block.owner == AddressRange::kNobody) continue;
        ASSERT_GE(block.owner, 0);
        ASSERT_TRUE(lineage.storage(block.owner).resident);
        ASSERT_EQ(block.bytes, lineage.storage(block.owner).bytes);
        placed += block.bytes;
      }
      ASSERT_EQ(placed, lineage.used_bytes());
      program.release_some(evictor);
    }
    recomputes += evictor.statistics().recomputes;
  }
  EXPECT_LT(failures * 10, runs);
  EXPECT_GT(recomputes, 1000);
}

}  // namespace
}  // namespace plimsoll::memory
