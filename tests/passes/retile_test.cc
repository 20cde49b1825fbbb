// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/partition/retile.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cases/random.h"
#include "tests/passes/partitioned.h"

namespace plimsoll::passes {
namespace {

using ir::Shape;
using ir::Sharding;

// A program that takes an array by one sharding and gives it by another.
struct Retiled {
  ir::Module module{"m"};
  std::int64_t received_bytes = 0;

  Retiled(const Shape& shape, const Sharding& from, const Sharding& to, std::int64_t partitions) {
    module.num_partitions = partitions;
    ir::Computation* const entry = module.add_computation("e");
    module.set_entry(entry);
    ir::Instruction* const tile = entry->add_parameter(0, *ir::tile_shape(shape, from));
    const Retiling retiling(shape, from, to, partitions);
    received_bytes = retiling.received_bytes();
    std::int64_t channel = 1;
    entry->add_tuple({retiling.add(tile, channel)});
  }
};

Sharding parse_held(const std::string& text, int rank, std::int64_t partitions) {
  auto held = ir::parse_sharding(text, rank, partitions);
  EXPECT_TRUE(held.ok()) << held.status().to_string();
  return held.ok() ? *held : Sharding();
}

TEST(Retile, TellsNoMoreThanIsNeeded) {
  struct Case {
    const char *from, *to;
    int gathers, exchanges;
    bool has_slice;
    std::int64_t received_bytes;
  };
  // Of 8 x 8 floats among 4.
  const Case cases[] = {
      {"{devices=[4,1]<=[4]}", "{devices=[4,1]<=[4]}", 0, 0, false, 0},
      // Finer: a part of what is there.
      {"{devices=[2,1,2]<=[4] last_tile_dim_replicate}", "{devices=[4,1]<=[4]}", 0, 0, true, 0},
      {"{devices=[2,1,2]<=[4] last_tile_dim_replicate}", "{devices=[2,2]<=[4]}", 0, 0, true, 0},
      // Coarser: among the two who have the halves.
      {"{devices=[4,1]<=[4]}", "{devices=[2,1,2]<=[4] last_tile_dim_replicate}", 1, 0, false, 64},
      {"{devices=[2,2]<=[4]}", "{devices=[2,1,2]<=[4] last_tile_dim_replicate}", 1, 0, false, 64},
      {"{devices=[2,2]<=[4]}", "{replicated}", 2, 0, false, 192},
      // From one dimension to the other.
      {"{devices=[4,1]<=[4]}", "{devices=[1,4]<=[4]}", 0, 1, false, 48},
      {"{devices=[2,1,2]<=[4] last_tile_dim_replicate}",
       "{devices=[1,2,2]<=[4] last_tile_dim_replicate}", 0, 1, false, 64},
      // By another axis: what is needed less of goes first, so that less is gathered.
      {"{devices=[2,1,2]<=[4] last_tile_dim_replicate}",
       "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}", 1, 0, true, 64},
      // Others have other parts of it: all of it, and then a part.
      {"{devices=[4,1]<=[4]}", "{devices=[4,1]<=[2,2]T(1,0)}", 1, 0, true, 192},
  };
  for (const Case& one : cases) {
    const Shape shape(ir::DType::f32, {8, 8});
    const Retiled made(shape, parse_held(one.from, 2, 4), parse_held(one.to, 2, 4), 4);
    const std::string what = std::string(one.from) + " to " + one.to + ir::to_text(made.module);
    EXPECT_EQ(number_of(made.module, Opcode::all_gather), one.gathers) << what;
    EXPECT_EQ(number_of(made.module, Opcode::all_to_all), one.exchanges) << what;
    EXPECT_EQ(number_of(made.module, Opcode::dynamic_slice) > 0, one.has_slice) << what;
    EXPECT_EQ(made.received_bytes, one.received_bytes) << what;
  }
}

// Any sharding to any other, of meshes whose axes stand in any order, with tiles that reach beyond.
TEST(Retile, EveryShardingBecomesEveryOther) {
  cases::Random random(11);
  int exchanges = 0, parts = 0;
  for (int round = 0; round < 400; ++round) {
    const std::int64_t sizes[] = {random.between(1, 3), random.between(1, 2), random.between(1, 2)};
    const std::int64_t partitions = sizes[0] * sizes[1] * sizes[2];
    const int rank = static_cast<int>(random.between(1, 3));
    const auto draw = [&] {
      std::vector<std::vector<ir::MeshAxisPart>> axes(at(rank));
      const std::int64_t first = random.between(0, 2);
      for (std::int64_t i = 0; i < 3; ++i) {
        if (random.chance(0.7)) axes[random.below(axes.size())].push_back({(first + i) % 3, 1, 0});
      }
      const auto held = ir::mesh_sharding(sizes, axes);
      EXPECT_TRUE(held.ok());
      return *held;
    };
    const Sharding from = draw(), to = draw();
    ir::Dims dims;
    for (int d = 0; d < rank; ++d) {
      dims.push_back(random.chance(0.6) ? 12 * random.between(1, 2) : random.between(1, 9));
    }
    const Shape shape(ir::DType::f32, dims);
    Literal whole(shape);
    for (std::int64_t i = 0; i < shape.element_count(); ++i) whole.set(i, static_cast<double>(i));
    const Retiled made(shape, from, to, partitions);
    const std::string what = ir::to_string(from) + " to " + ir::to_string(to);
    ASSERT_TRUE(ir::verify(made.module).ok()) << what << ir::to_text(made.module);
    std::vector<std::vector<Literal>> tiles;
    for (std::int64_t p = 0; p < partitions; ++p) {
      tiles.push_back({tile_of(whole, from, p, partitions, -1)});
    }
    const auto results = ir::interpret_together(made.module, tiles);
    ASSERT_TRUE(results.ok()) << what << results.status().to_string();
    for (std::int64_t p = 0; p < partitions; ++p) {
      const Literal& tile = (*results)[at(p)].elements()[0];
      EXPECT_EQ(inside(tile, shape, to, p, partitions), tile_of(whole, to, p, partitions))
          << what << shape.to_string() << " partition " << p << ir::to_text(made.module);
    }
    exchanges += number_of(made.module, Opcode::all_to_all);
    parts += made.received_bytes > 0 && number_of(made.module, Opcode::all_gather) > 0 &&
             !to.is_replicated();
  }
  EXPECT_GT(exchanges, 5);
  EXPECT_GT(parts, 50);
}

}  // namespace
}  // namespace plimsoll::passes
