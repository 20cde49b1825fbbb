// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cases/random.h"
#include "tests/passes/partitioned.h"

namespace plimsoll::passes {
namespace {

// Neighbours are sent edges; nothing is gathered.
TEST(PartitionWindows, NeighboursAreSentTheEdges) {
  struct Case {
    const char* text;
    int sent;
  };
  const Case cases[] = {
      // Differences, of 32 and of a number that does not divide.
      {R"(  x = f32[32,3] parameter(0), sharding={devices=[4,1]<=[4]}
  a = f32[31,3] slice(x), slice={[1:32], [0:3]}
  b = f32[31,3] slice(x), slice={[0:31], [0:3]}
  ROOT r = f32[31,3] subtract(a, b), sharding={devices=[4,1]<=[4]}
)",
       1},
      {R"(  x = f32[30,6] parameter(0), sharding={devices=[4,1]<=[4]}
  ROOT r = f32[26,2] slice(x), slice={[2:28], [1:6:3]}, sharding={devices=[4,1]<=[4]}
)",
       2},
      {R"(  x = f32[32] parameter(0), sharding={devices=[4]<=[4]}
  one = f32[] constant(1)
  p = f32[34] pad(x, one), padding=2_0
  ROOT r = f32[34] negate(p), sharding={devices=[4]<=[4]}
)",
       2},
      // Both dimensions of a mesh of two by two.
      {R"(  x = f32[8,6] parameter(0), sharding={devices=[2,2]<=[4]}
  zero = f32[] constant(0)
  p = f32[10,8] pad(x, zero), padding=1_1x1_1
  up = f32[8,6] slice(p), slice={[0:8], [1:7]}
  down = f32[8,6] slice(p), slice={[2:10], [1:7]}
  left = f32[8,6] slice(p), slice={[1:9], [0:6]}
  right = f32[8,6] slice(p), slice={[1:9], [2:8]}
  v = f32[8,6] add(up, down)
  h = f32[8,6] add(left, right)
  ROOT r = f32[8,6] add(v, h), sharding={devices=[2,2]<=[4]}
)",
       -1},
      {R"(  x = f32[2,16,5,3] parameter(0), sharding={devices=[1,4,1,1]<=[4]}
  k = f32[3,3,3,2] parameter(1), sharding={replicated}
  ROOT r = f32[2,16,5,2] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, sharding={devices=[1,4,1,1]<=[4]}
)",
       2},
      {R"(  x = f32[2,16,5,3] parameter(0), sharding={devices=[1,4,1,1]<=[4]}
  k = f32[3,3,3,2] parameter(1), sharding={replicated}
  ROOT r = f32[2,8,3,2] convolution(x, k), window={size=3x3 stride=2x2 pad=0_1x1_1}, dim_labels=b01f_01io->b01f, sharding={devices=[1,4,1,1]<=[4]}
)",
       1},
      {R"(  x = f32[16,4] parameter(0), sharding={devices=[4,1]<=[4]}
  zero = f32[] constant(0)
  ROOT r = f32[16,4] reduce-window(x, zero), window={size=3x1 pad=1_1x0_0}, to_apply=sum, sharding={devices=[4,1]<=[4]}
)",
       2},
      // Tiles behind each other.
      {R"(  x = f32[12,2] parameter(0), sharding={devices=[4,1]<=[4]}
  y = f32[1,2] parameter(1), sharding={replicated}
  ROOT r = f32[13,2] concatenate(y, x), dimensions={0}, sharding={devices=[4,1]<=[4]}
)",
       2},
      // Each writes its part of an update, wherever it begins.
      {R"(  x = f32[12,2] parameter(0), sharding={devices=[4,1]<=[4]}
  u = f32[5,2] parameter(1), sharding={replicated}
  i = s32[] parameter(2), sharding={replicated}
  ROOT r = f32[12,2] dynamic-update-slice(x, u, i, i), sharding={devices=[4,1]<=[4]}
)",
       0},
  };
  for (const Case& one : cases) {
    const auto module = on_tiles("ENTRY e {\n" + std::string(one.text) + "}\n", 4);
    EXPECT_EQ(number_of(*module, Opcode::all_gather), 0) << ir::to_text(*module);
    EXPECT_EQ(number_of(*module, Opcode::all_reduce), 0) << ir::to_text(*module);
    if (one.sent < 0) continue;
    EXPECT_EQ(number_of(*module, Opcode::collective_permute), one.sent) << ir::to_text(*module);
  }
}

// Rows that have been rolled: those that come around are of one tile, and all are told them.
TEST(PartitionWindows, WhatOneTileHasIsToldToAll) {
  const auto module = on_tiles(R"(
ENTRY e {
  x = f32[32,3] parameter(0), sharding={devices=[4,1]<=[4]}
  last = f32[1,3] slice(x), slice={[31:32], [0:3]}
  others = f32[31,3] slice(x), slice={[0:31], [0:3]}
  ROOT r = f32[32,3] concatenate(last, others), dimensions={0}, sharding={devices=[4,1]<=[4]}
}
)",
                               4);
  EXPECT_EQ(number_of(*module, Opcode::all_gather), 1) << ir::to_text(*module);
  for (const auto& one : module->entry()->instructions()) {
    if (one->opcode() != Opcode::all_gather) continue;
    EXPECT_EQ(one->shape(), ir::Shape(ir::DType::f32, {4, 3}));
  }
}

// From a place that only the run knows: summed of what each has of it.
TEST(PartitionWindows, SlicesFromAnywhereAreSummed) {
  for (const char* rows : {"3000", "2998"}) {
    std::string text = R"(
ENTRY e {
  x = f32[ROWS,6] parameter(0), sharding={devices=[2,2]<=[4]}
  i = u8[] parameter(1), sharding={replicated}
  ROOT r = f32[3,6] dynamic-slice(x, i, i), dynamic_slice_sizes={3,6}, sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}
}
)";
    text.replace(text.find("ROWS"), 4, rows);
    const auto module = on_tiles(text, 4);
    EXPECT_EQ(number_of(*module, Opcode::all_gather), 0) << ir::to_text(*module);
    EXPECT_EQ(number_of(*module, Opcode::all_reduce), 1) << ir::to_text(*module);
  }
}

// Rows of a table that is cut by rows: each has those of its tile, and all are summed; indices that
// lie outside are moved as the whole gather moves them.
TEST(PartitionWindows, LookUpsInATableThatIsCutAreSummed) {
  for (const char* vector : {"1", "2"}) {
    const bool is_pair = std::string(vector) == "2";
    const std::string text =
        std::string(R"(
ENTRY e {
  table = f32[90,6] parameter(0), sharding={devices=[4,1]<=[4]}
  rows = s32[3,)") +
        vector + R"(] constant({)" +
        (is_pair ? "{-4, 1}, {89, 0}, {1000, 4}" : "{-4}, {89}, {1000}") +
        R"(})
  ROOT r = f32[3,)" +
        (is_pair ? "2" : "6") +
        R"(] gather(table, rows), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={)" +
        (is_pair ? "0,1" : "0") + R"(}, index_vector_dim=1, slice_sizes={1,)" +
        (is_pair ? "2" : "6") + R"(}, sharding={replicated}
}
)";
    const auto module = on_tiles(text, 4);
    EXPECT_EQ(number_of(*module, Opcode::all_gather), 0) << ir::to_text(*module);
    EXPECT_EQ(number_of(*module, Opcode::all_reduce), 1) << ir::to_text(*module);
  }
}

// Slices, paddings, concatenations and windows of every size, of tiles that divide and that do not.
TEST(PartitionWindows, RandomWindowsReadWhatTheWholeProgramReads) {
  cases::Random random(5);
  int sent = 0, gathered = 0;
  for (int round = 0; round < 150; ++round) {
    const std::int64_t partitions = random.chance(0.5) ? 2 : 4;
    const std::int64_t size = random.between(6, 24);
    const std::string cut = ", sharding={devices=[" + std::to_string(partitions) + "]<=[" +
                            std::to_string(partitions) + "]}\n";
    std::string text = "ENTRY e {\n  x = f32[" + std::to_string(size) + "] parameter(0)" + cut +
                       "  y = f32[" + std::to_string(size) + "] parameter(1)" + cut +
                       "  k = f32[] constant(3)\n  zero = f32[] constant(0)\n";
    std::string last = "x";
    std::int64_t now = size;
    for (int i = 0; i < 4; ++i) {
      const std::string name = "v" + std::to_string(i);
      std::string shape, rest;
      switch (random.between(0, 4)) {
        case 0: {
          const std::int64_t low = random.between(0, std::min<std::int64_t>(3, now - 1));
          const std::int64_t high = random.between(low + 1, now);
          const std::int64_t stride = random.between(1, 2);
          rest = "slice(" + last + "), slice={[" + std::to_string(low) + ":" +
                 std::to_string(high) + ":" + std::to_string(stride) + "]}";
          now = (high - low + stride - 1) / stride;
          break;
        }
        case 1: {
          const std::int64_t low = random.between(-1, 3), high = random.between(-1, 3);
          if (now + low + high < 1) continue;
          rest =
              "pad(" + last + ", k), padding=" + std::to_string(low) + "_" + std::to_string(high);
          now += low + high;
          break;
        }
        case 2: {
          const bool is_first = random.chance(0.5);
          rest = "concatenate(" + (is_first ? last + ", y" : "y, " + last) + "), dimensions={0}";
          now += size;
          break;
        }
        case 3: {
          const std::int64_t window = random.between(1, 3), stride = random.between(1, 2);
          if (now < window) continue;
          rest = "reduce-window(" + last + ", zero), window={size=" + std::to_string(window) +
                 " stride=" + std::to_string(stride) + " pad=1_" + std::to_string(window - 1) +
                 "}, to_apply=sum";
          now = (now + window - window) / stride + 1;
          break;
        }
        default:
          rest = "negate(" + last + ")";
      }
      text += "  " + name + " = f32[" + std::to_string(now) + "] " + rest + "\n";
      last = name;
    }
    text += "  ROOT r = (f32[" + std::to_string(now) + "]) tuple(" + last + ")\n}\n";
    const auto module = on_tiles(text, partitions);
    if (testing::Test::HasFailure()) FAIL() << "round " << round << text;
    sent += number_of(*module, Opcode::collective_permute);
    gathered += number_of(*module, Opcode::all_gather);
  }
  EXPECT_GT(sent, 50);
  EXPECT_GT(gathered, 0);
}

}  // namespace
}  // namespace plimsoll::passes
