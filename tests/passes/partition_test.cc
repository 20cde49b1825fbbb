// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/shapes/verifier.h"
#include "runtime/ir/text/text.h"
#include "runtime/passes/partition/tiles.h"
#include "runtime/passes/passes.h"
#include "tests/cases/compare.h"
#include "tests/cases/random.h"
#include "tests/cases/random_module.h"
#include "tests/passes/expression.h"
#include "tests/passes/partitioned.h"

namespace plimsoll::passes {
namespace {

using ir::Literal;
using ir::Opcode;

constexpr std::string_view kSums =
    "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n";

// x by rows of a mesh of 2 x 2, w whole; the region multiplies its rows and adds up over the mesh's
// second axis, along which everybody has the same.
const std::string kRegion =
    std::string("HloModule m, num_partitions=4\n") + std::string(kSums) + R"(
body {
  x = f32[2,3] parameter(0)
  w = f32[3,2] parameter(1)
  y = f32[2,2] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT s = f32[2,2] all-reduce(y), channel_id=1, use_global_device_ids=true, replica_groups={{0,1},{2,3}}, to_apply=sum
}
ENTRY e {
  x = f32[4,3] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  w = f32[3,2] parameter(1), sharding={replicated}
  sx = f32[4,3] custom-call(x), custom_call_target="Sharding", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  tx = f32[2,3] custom-call(sx), custom_call_target="SPMDFullToShardShape", sharding={manual}
  sw = f32[3,2] custom-call(w), custom_call_target="Sharding", sharding={replicated}
  tw = f32[3,2] custom-call(sw), custom_call_target="SPMDFullToShardShape", sharding={manual}
  ty = f32[2,2] call(tx, tw), to_apply=body
  my = f32[2,2] custom-call(ty), custom_call_target="Sharding", sharding={manual}
  y = f32[4,2] custom-call(my), custom_call_target="SPMDShardToFullShape", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  ROOT r = f32[4,2] negate(y)
}
)";

const std::string kRegionBySdy =
    std::string(
        "HloModule m, num_partitions=4, frontend_attributes={xla.sdy.meshes={mesh = "
        "#sdy.mesh<[\"a\"=2, \"b\"=2]>}}\n") +
    std::string(kSums) + R"(
body {
  x = f32[2,3] parameter(0)
  w = f32[3,2] parameter(1)
  y = f32[2,2] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT s = f32[2,2] all-reduce(y), channel_id=1, use_global_device_ids=true, replica_groups={{0,1},{2,3}}, to_apply=sum
}
ENTRY e {
  x = f32[4,3] parameter(0)
  w = f32[3,2] parameter(1)
  both = (f32[2,3], f32[3,2]) custom-call(x, w), custom_call_target="xla.sdy.GlobalToLocalShape", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.in_shardings="#sdy.sharding_per_value<[<@mesh, [{\"a\", ?}, {}]>, <@mesh, [{?}, {?}], replicated={\"b\"}>]>",xla.sdy.manual_axes="#sdy<manual_axes{\"a\"}>"}
  tx = f32[2,3] get-tuple-element(both), index=0
  tw = f32[3,2] get-tuple-element(both), index=1
  ty = f32[2,2] call(tx, tw), to_apply=body
  y = f32[4,2] custom-call(ty), custom_call_target="xla.sdy.LocalToGlobalShape", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.out_shardings="#sdy.sharding_per_value<[<@mesh, [{\"a\", ?}, {}]>]>",xla.sdy.manual_axes="#sdy<manual_axes{\"a\"}>"}
  ROOT r = f32[4,2] negate(y)
}
)";

const std::string kWhole = R"(HloModule m
ENTRY e {
  x = f32[4,3] parameter(0)
  w = f32[3,2] parameter(1)
  y = f32[4,2] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  two = f32[4,2] add(y, y)
  ROOT r = f32[4,2] negate(two)
}
)";

TEST(Partition, ManualRegionsMeanWhatTheySay) {
  const auto whole = parse(kWhole);
  const auto arguments = cases::random_arguments(*whole, 1);
  const auto expected = ir::interpret(*whole, arguments);
  ASSERT_TRUE(expected.ok());
  for (const auto& [text, is_cut] : {std::pair(kRegion, true), std::pair(kRegionBySdy, false)}) {
    const auto module = parse(text);
    const Status status = partition(*module).status();
    ASSERT_TRUE(status.ok()) << status.to_string();
    ASSERT_TRUE(ir::verify(*module).ok()) << ir::to_text(*module);
    EXPECT_EQ(number_of(*module, Opcode::custom_call), 0);
    std::vector<std::vector<Literal>> all(4, arguments);
    const auto rows = ir::parse_sharding("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", 2, 4);
    for (std::int64_t p = 0; is_cut && p < 4; ++p) {
      all[at(p)][0] = tile_of(arguments[0], *rows, p, 4);
    }
    ASSERT_TRUE(expand(*module).ok());
    const auto results = ir::interpret_together(*module, all);
    ASSERT_TRUE(results.ok()) << results.status().to_string() << ir::to_text(*module);
    for (const Literal& result : *results) {
      EXPECT_EQ(cases::compare_close(*expected, result, 1e-6), "");
    }
  }
}

// What a parameter has as tiles goes into a region as it is, and from one region to the next.
TEST(Partition, TilesAreNotGatheredForNothing) {
  std::string text = kRegion;
  const auto root = text.find("  ROOT r = f32[4,2] negate(y)");
  text.replace(root, std::string::npos, R"(
  again = f32[4,2] custom-call(y), custom_call_target="Sharding", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  tile = f32[2,2] custom-call(again), custom_call_target="SPMDFullToShardShape", sharding={manual}
  n = f32[2,2] negate(tile)
  r = f32[4,2] custom-call(n), custom_call_target="SPMDShardToFullShape", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  ROOT t = (f32[4,2]) tuple(r), sharding={{devices=[2,1,2]<=[4] last_tile_dim_replicate}}
}
)");
  const auto module = parse(text);
  ASSERT_TRUE(partition(*module).ok());
  EXPECT_EQ(number_of(*module, Opcode::all_gather), 0) << ir::to_text(*module);
  EXPECT_EQ(number_of(*module, Opcode::dynamic_slice), 0);
  EXPECT_EQ(module->entry()->root()->shape().elements()[0], ir::Shape(ir::DType::f32, {2, 2}));
}

// Of one result as of several: where its operands are tiles and it's computed on them, it is made
// whole or cut as the program says of it, not as it is there.
TEST(Partition, ResultsAreCutAsTheProgramSays) {
  for (const auto& [said, result] :
       {std::pair("{replicated}", ir::Shape(ir::DType::f32, {4, 6})),
        std::pair("{devices=[1,2]<=[2]}", ir::Shape(ir::DType::f32, {4, 3})),
        std::pair("{devices=[2,1]<=[2]}", ir::Shape(ir::DType::f32, {2, 6}))}) {
    const auto module = parse(std::string(R"(
HloModule m, num_partitions=2, whole_shapes=true
ENTRY e {
  x = f32[4,6] parameter(0), sharding={devices=[2,1]<=[2]}
  ROOT s = f32[4,6] add(x, x), sharding=)") +
                              said + "\n}\n");
    const Status status = partition(*module).status();
    ASSERT_TRUE(status.ok()) << status.to_string();
    ASSERT_TRUE(ir::verify(*module).ok()) << ir::to_text(*module);
    EXPECT_EQ(module->entry()->root()->shape(), result) << ir::to_text(*module);
  }
}

// Summands stay so through what is linear in them, and are summed once, where the program asks for
// the sum; a product that is asked for by its summands is not summed at all.
TEST(Partition, SummandsAreSummedWhereTheProgramAsksForIt) {
  const auto module = parse(R"(
HloModule m, num_partitions=4, whole_shapes=true
ENTRY e {
  x = f32[4,2] parameter(0), sharding={devices=[2,2]<=[4]}
  w = f32[2,6] parameter(1), sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  s = f32[4,6] parameter(2), sharding={devices=[2,1,2]<=[4] last_tile_dims={unreduced}}
  y = f32[4,6] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  open = f32[4,6] custom-call(y), custom_call_target="Sharding", sharding={devices=[2,1,2]<=[4] last_tile_dims={unreduced}}
  sum = f32[4,6] add(open, s)
  turned = f32[6,4] transpose(sum), dimensions={1,0}
  cut = f32[6,4] custom-call(turned), custom_call_target="Sharding", sharding={devices=[1,2,2]<=[4] last_tile_dim_replicate}
  ROOT t = (f32[4,6], f32[6,4]) tuple(sum, cut), sharding={{devices=[2,1,2]<=[4] last_tile_dims={unreduced}}, {devices=[1,2,2]<=[4] last_tile_dim_replicate}}
}
)");
  const Status status = partition(*module).status();
  ASSERT_TRUE(status.ok()) << status.to_string();
  ASSERT_TRUE(ir::verify(*module).ok()) << ir::to_text(*module);
  EXPECT_EQ(number_of(*module, Opcode::all_reduce), 1) << ir::to_text(*module);
  EXPECT_EQ(number_of(*module, Opcode::all_gather), 0) << ir::to_text(*module);
  const std::string said(module->entry()->root()->attributes().find_extra("sharding"));
  EXPECT_EQ(said,
            "{{devices=[2,1,2]0,1,2,3 last_tile_dims={unreduced}},"
            "{devices=[1,2,2]0,1,2,3 last_tile_dim_replicate}}");
}

// As many elements come out as go in, but not where they were: a tile is not enough.
TEST(Partition, WindowsThatMoveElementsAreNotComputedOnTiles) {
  for (const char* window : {"{size=1 pad=1_-1}", "{size=1 stride=2 pad=0_4}"}) {
    const std::string program = std::string(kSums) + R"(
ENTRY e {
  x = f32[4] parameter(0), sharding={devices=[2]<=[2]}
  zero = f32[] constant(0)
  ROOT r = f32[4] reduce-window(x, zero), window=)" +
                                window + R"(, to_apply=sum, sharding={replicated}
}
)";
    const auto whole = parse("HloModule m\n" + program);
    const auto module = parse("HloModule m, num_partitions=2, whole_shapes=true\n" + program);
    const auto arguments = cases::random_arguments(*whole, 1);
    const auto expected = ir::interpret(*whole, arguments);
    ASSERT_TRUE(expected.ok());
    ASSERT_TRUE(partition(*module).ok());
    const auto cut = ir::parse_sharding("{devices=[2]<=[2]}", 1, 2);
    std::vector<std::vector<Literal>> all;
    for (std::int64_t p = 0; p < 2; ++p) all.push_back({tile_of(arguments[0], *cut, p, 2)});
    const auto results = ir::interpret_together(*module, all);
    ASSERT_TRUE(results.ok()) << results.status().to_string();
    for (const Literal& result : *results) EXPECT_EQ(result, *expected) << window;
  }
}

// Arrays of any rank, cut by any axes of any mesh: a tile of the whole, and the whole of the tiles.
TEST(Partition, WholesAndTilesAgree) {
  cases::Random random(3);
  for (int round = 0; round < 60; ++round) {
    const std::int64_t sizes[] = {random.between(1, 3), random.between(1, 2), random.between(1, 2)};
    const std::int64_t partitions = sizes[0] * sizes[1] * sizes[2];
    const int rank = static_cast<int>(random.between(1, 3));
    std::vector<std::vector<ir::MeshAxisPart>> axes(at(rank));
    for (std::int64_t axis = 0; axis < 3; ++axis) {
      if (random.chance(0.7)) axes[random.below(axes.size())].push_back({axis, 1, 0});
    }
    const auto sharding = ir::mesh_sharding(sizes, axes);
    ASSERT_TRUE(sharding.ok()) << sharding.status().to_string();
    ir::Dims dims;
    for (int d = 0; d < rank; ++d) {
      const std::int64_t tiles = sharding->is_replicated() ? 1 : sharding->tiles[at(d)];
      dims.push_back(random.chance(0.5) ? tiles * random.between(1, 3) : random.between(1, 9));
    }
    const ir::Shape shape(ir::DType::f32, dims);
    Literal whole(shape);
    for (std::int64_t i = 0; i < shape.element_count(); ++i) whole.set(i, static_cast<double>(i));

    ir::Module module("m");
    module.num_partitions = partitions;
    ir::Computation* const entry = module.add_computation("e");
    module.set_entry(entry);
    ir::Instruction* const parameter = entry->add_parameter(0, shape);
    const auto tile = add_tile(parameter, *sharding);
    ASSERT_TRUE(tile.ok()) << tile.status().to_string();
    std::int64_t channel = 1;
    const auto again = add_whole(*tile, shape, *sharding, channel);
    ASSERT_TRUE(again.ok()) << again.status().to_string();
    entry->add_tuple({*tile, *again});
    ASSERT_TRUE(ir::verify(module).ok()) << ir::to_text(module);
    const std::vector<std::vector<Literal>> arguments(at(partitions),
                                                      std::vector<Literal>(1, whole));
    const auto results = ir::interpret_together(module, arguments);
    ASSERT_TRUE(results.ok()) << results.status().to_string() << ir::to_text(module);
    for (std::int64_t p = 0; p < partitions; ++p) {
      const auto& both = (*results)[at(p)].elements();
      EXPECT_EQ(both[0], tile_of(whole, *sharding, p, partitions)) << ir::to_string(*sharding);
      EXPECT_EQ(both[1], whole) << ir::to_string(*sharding);
    }
  }
}

// Any sharding of an array of so many dimensions by a mesh of two axes.
std::string random_sharding(cases::Random& random, std::span<const std::int64_t> sizes, int rank) {
  std::vector<std::vector<ir::MeshAxisPart>> axes(at(rank));
  for (std::int64_t axis = 0; axis < 2 && rank > 0; ++axis) {
    const std::size_t d = random.below(axes.size());
    if (random.chance(0.8)) axes[d].push_back({axis, 1, 0});
  }
  const auto sharding = ir::mesh_sharding(sizes, axes);
  EXPECT_TRUE(sharding.ok());
  return ir::to_string(*sharding);
}

void say_sharding(ir::Instruction& instruction, std::string sharding) {
  auto& extra = instruction.attributes().extra;
  std::erase_if(extra, [](const auto& one) { return one.first == "sharding"; });
  extra.emplace_back("sharding", std::move(sharding));
}

// Marks behind some arrays of a computation, which their readers read.
void add_marks(cases::Random& random, std::span<const std::int64_t> sizes,
               ir::Computation& computation) {
  std::vector<ir::Instruction*> arrays;
  for (const auto& one : computation.instructions()) {
    const bool may_be = one->shape().is_array() && !one->users().empty() && !one->is_root();
    if (may_be && random.chance(0.15)) arrays.push_back(one.get());
  }
  for (ir::Instruction* const array : arrays) {
    const std::vector<ir::Instruction*> users = array->users();
    ir::Attributes attributes;
    attributes.custom_call_target = "Sharding";
    ir::Instruction* const root = computation.root();
    ir::Instruction* const mark =
        computation.add(Opcode::custom_call, array->shape(), {array}, {}, std::move(attributes));
    say_sharding(*mark, random_sharding(random, sizes, array->shape().rank()));
    for (ir::Instruction* const user : users) {
      for (int i = 0; i < user->operand_count(); ++i) {
        if (user->operand(i) == array) user->replace_operand(i, mark);
      }
    }
    computation.set_root(root);
  }
  ASSERT_TRUE(computation.sort_topologically().ok());
}

// Random programs whose parameters, results and some of the arrays between are cut at random, in
// loops and branches, too: the same values, up to the order of sums.
TEST(Partition, RandomProgramsComputeTheSameOnTiles) {
  std::int64_t sums = 0, gathers = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    cases::RandomModuleOptions options;
    options.instructions = 50;
    options.largest_bytes = 4 << 10;
    options.smallest_bytes = 256;
    options.donations = false;
    const auto whole = cases::random_module(seed, options);
    const auto arguments = cases::random_arguments(*whole, seed + 1);
    cases::Random random(seed + 100);
    const auto module = whole->clone();
    const std::int64_t sizes[] = {2, random.between(1, 2)};
    module->num_partitions = sizes[0] * sizes[1];
    module->extra.emplace_back(kWholeShapes, "true");
    for (ir::Instruction* const parameter : module->entry()->parameters()) {
      say_sharding(*parameter, random_sharding(random, sizes, parameter->shape().rank()));
    }
    if (random.chance(0.5)) {
      add_marks(random, sizes, *module->entry());
      for (const auto& one : module->entry()->instructions()) {
        if (one->opcode() != Opcode::while_ && one->opcode() != Opcode::conditional) continue;
        add_marks(random, sizes, *one->called_computations().back());
      }
    }
    if (random.chance(0.5)) {
      std::string all;
      for (const ir::Shape* const leaf : ir::leaves(module->entry()->root()->shape())) {
        all += (all.empty() ? "" : ", ") + random_sharding(random, sizes, leaf->rank());
      }
      say_sharding(*module->entry()->root(), "{" + all + "}");
    }
    compute_on_tiles(*whole, *module, arguments, 2e-3, 1e-3);
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
    sums += number_of(*module, Opcode::all_reduce);
    gathers += number_of(*module, Opcode::all_gather);
  }
  EXPECT_GT(sums, 60);
  EXPECT_GT(gathers, 0);
}

// 7 rows among 2 or 4: the last tile reaches beyond them, and what is there gets into no sum.
TEST(Partition, TilesMayReachBeyondTheArray) {
  constexpr std::string_view kProgram = R"(
most { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] maximum(a, b) }
ENTRY e {
  x = f32[7,6] parameter(0), sharding={devices=[PARTS,1]<=[PARTS]}
  y = f32[7,5] parameter(1), sharding={devices=[PARTS,1]<=[PARTS]}
  rows = s32[7,1] parameter(2), sharding={devices=[PARTS,1]<=[PARTS]}
  zero = f32[] constant(0)
  least = f32[] constant(-3)
  zeros = f32[4,6] broadcast(zero), dimensions={}
  h = f32[7,6] tanh(x)
  g = f32[6,5] dot(h, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  columns = f32[6] reduce(h, zero), dimensions={0}, to_apply=sum
  greatest = f32[] reduce(h, least), dimensions={0,1}, to_apply=most
  z = f32[7,5] dot(h, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  taken = f32[4,6] scatter(zeros, rows, h), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum
  flat = f32[7,2,3] reshape(h)
  one = f32[] constant(1)
  ones = f32[7,6] broadcast(one), dimensions={}
  counted = f32[4,6] scatter(zeros, rows, ones), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum
  ROOT t = (f32[6,5], f32[6], f32[], f32[7,5], f32[4,6], f32[7,2,3], f32[4,6]) tuple(g, columns, greatest, z, taken, flat, counted)
}
)";
  for (const std::int64_t partitions : {2, 4}) {
    std::string program = std::string(kSums) + std::string(kProgram);
    for (std::size_t at = 0; (at = program.find("PARTS")) != std::string::npos;) {
      program.replace(at, 5, std::to_string(partitions));
    }
    const auto whole = parse("HloModule m\n" + program);
    const auto module =
        parse("HloModule m, whole_shapes=true, num_partitions=" + std::to_string(partitions) +
              "\n" + program);
    auto arguments = cases::random_arguments(*whole, 4);
    for (int i = 0; i < 7; ++i) arguments[2].set(i, i % 4);
    compute_on_tiles(*whole, *module, arguments, 1e-5);
    // Of the two results that nobody has asked for in such tiles.
    EXPECT_EQ(number_of(*module, Opcode::all_gather), 2) << ir::to_text(*module);
    EXPECT_EQ(number_of(*module, Opcode::all_reduce), 5);
  }
}

// As JAX writes sums by segments: zeros that the program says are everybody's are zeros still.
TEST(Partition, SumsBySegmentsStayWithThoseWhoHaveTheRows) {
  const auto module =
      parse("HloModule m, whole_shapes=true, num_partitions=4\n" + std::string(kSums) + R"(
ENTRY e {
  rows = f32[8,2] parameter(0), sharding={devices=[4,1]<=[4]}
  segments = s32[8,1] parameter(1), sharding={devices=[4,1]<=[4]}
  zero = f32[] constant(0)
  spread = f32[3,2] broadcast(zero), dimensions={}
  zeros = f32[3,2] custom-call(spread), custom_call_target="Sharding", sharding={replicated}
  sums = f32[3,2] scatter(zeros, segments, rows), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum
  ROOT r = f32[3,2] custom-call(sums), custom_call_target="Sharding", sharding={devices=[1,1,4]<=[4] last_tile_dims={unreduced}}
}
)");
  const Status status = partition(*module).status();
  ASSERT_TRUE(status.ok()) << status.to_string();
  ASSERT_TRUE(ir::verify(*module).ok()) << ir::to_text(*module);
  EXPECT_EQ(number_of(*module, Opcode::all_gather), 0) << ir::to_text(*module);
  EXPECT_EQ(number_of(*module, Opcode::all_reduce), 0);
  EXPECT_EQ(number_of(*module, Opcode::scatter), 1);
}

// Along dimensions in which nothing moves, and sums over what is cut: each on its tile, with no
// array gathered, and the values of the whole program.
TEST(Partition, WhatGoesAlongWithTilesIsNotGathered) {
  struct Case {
    const char* text;
    int sums = 0, gathers = 0;
  };
  constexpr std::string_view kHelpers = R"(
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }
pairs { a = f32[] parameter(0) b = f32[] parameter(1) i = s32[] parameter(2) j = s32[] parameter(3) ROOT c = pred[] compare(a, b), direction=LT }
more { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=GE }
most { a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3)
  c = pred[] compare(a, b), direction=GT
  m = f32[] select(c, a, b)
  k = s32[] select(c, i, j)
  ROOT t = (f32[], s32[]) tuple(m, k) }
write { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }
ENTRY e {
)";
  const Case cases[] = {
      {R"(  x = f32[4,6] parameter(0), sharding={devices=[2,1]<=[2]}
  ROOT r = f32[4,6] sort(x), dimensions={1}, to_apply=less, sharding={devices=[2,1]<=[2]}
)"},
      {R"(  x = f32[4,6] parameter(0), sharding={devices=[2,1]<=[2]}
  i = s32[4,6] iota(), iota_dimension=1
  s = (f32[4,6], s32[4,6]) sort(x, i), dimensions={1}, to_apply=pairs
  ROOT r = s32[4,6] get-tuple-element(s), index=1, sharding={devices=[2,1]<=[2]}
)"},
      {R"(  x = f32[4,6] parameter(0), sharding={devices=[2,1]<=[2]}
  i = s32[4,6] iota(), iota_dimension=1
  low = f32[] constant(-inf)
  zero = s32[] constant(0)
  m = (f32[4], s32[4]) reduce(x, i, low, zero), dimensions={1}, to_apply=most
  ROOT r = s32[4] get-tuple-element(m), index=1, sharding={devices=[2]<=[2]}
)"},
      {R"(  x = f32[4,6] parameter(0), sharding={devices=[2,1]<=[2]}
  u = f32[4,2] parameter(1), sharding={devices=[2,1]<=[2]}
  zero = s32[] constant(0)
  three = s32[] constant(3)
  ROOT r = f32[4,6] dynamic-update-slice(x, u, zero, three), sharding={devices=[2,1]<=[2]}
)"},
      {R"(  table = f32[6,4] parameter(0), sharding={devices=[1,2]<=[2]}
  rows = s32[3,1] constant({{0}, {5}, {2}})
  ROOT r = f32[3,4] gather(table, rows), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}, sharding={devices=[1,2]<=[2]}
)"},
      {R"(  x = f32[4,6] parameter(0), sharding={devices=[2,1]<=[2]}
  u = f32[4,2] parameter(1), sharding={devices=[2,1]<=[2]}
  columns = s32[2,1] constant({{1}, {4}})
  ROOT r = f32[4,6] scatter(x, columns, u), update_window_dims={0}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, index_vector_dim=1, to_apply=write, sharding={devices=[2,1]<=[2]}
)"},
      {R"(  x = f32[4,6] parameter(0), sharding={devices=[2,1]<=[2]}
  u = f32[4,3] parameter(1), sharding={devices=[2,1]<=[2]}
  zero = f32[] constant(0)
  ROOT r = f32[4,6] select-and-scatter(x, u, zero), window={size=1x2 stride=1x2}, select=more, scatter=sum, sharding={devices=[2,1]<=[2]}
)"},
      {R"(  x = f32[4,5,5,3] parameter(0), sharding={devices=[2,1,1,1]<=[2]}
  g = f32[4,5,5,2] parameter(1), sharding={devices=[2,1,1,1]<=[2]}
  ROOT r = f32[3,3,3,2] convolution(x, g), window={size=5x5 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf, sharding={replicated}
)",
       1},
      {R"(  x = f32[4,5,5,3] parameter(0), sharding={replicated}
  k = f32[3,3,3,2] parameter(1), sharding={devices=[1,1,1,2]<=[2]}
  ROOT r = f32[4,5,5,2] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, sharding={devices=[1,1,1,2]<=[2]}
)"},
      // A batch and features over which it sums that both are cut.
      {R"(  x = f32[4,5,5,4] parameter(0), sharding={devices=[2,1,1,1]<=[2]}
  k = f32[3,3,4,2] parameter(1), sharding={devices=[1,1,2,1]<=[2]}
  ROOT r = f32[4,5,5,2] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, sharding={devices=[2,1,1,1]<=[2]}
)",
       0, 1},
      // Features in groups, so many of them each.
      {R"(  x = f32[4,5,5,4] parameter(0), sharding={devices=[1,1,1,2]<=[2]}
  k = f32[3,3,1,8] parameter(1), sharding={replicated}
  ROOT r = f32[4,5,5,8] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=4, sharding={devices=[1,1,1,2]<=[2]}
)"},
      {R"(  x = f32[4,5,5,4] parameter(0), sharding={replicated}
  k = f32[3,3,2,6] parameter(1), sharding={devices=[1,1,1,2]<=[2]}
  ROOT r = f32[4,5,5,6] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=2, sharding={devices=[1,1,1,2]<=[2]}
)"},
  };
  for (const Case& one : cases) {
    const std::string program = std::string(kSums) + std::string(kHelpers) + one.text + "}\n";
    const auto whole = parse("HloModule m\n" + program);
    const auto module = parse("HloModule m, whole_shapes=true, num_partitions=2\n" + program);
    const auto arguments = cases::random_arguments(*whole, 7);
    compute_on_tiles(*whole, *module, arguments, 1e-5);
    EXPECT_EQ(number_of(*module, Opcode::all_gather), one.gathers) << ir::to_text(*module);
    EXPECT_EQ(number_of(*module, Opcode::all_reduce), one.sums) << ir::to_text(*module);
  }
}

// A dimension of one element that is cut has that element in one tile alone.
TEST(Partition, OneElementIsInOneTile) {
  const auto module = on_tiles(R"(
ENTRY e {
  x = f32[1,12] parameter(0), sharding={devices=[2,2]<=[4]}
  flat = f32[12] reshape(x)
  ROOT r = f32[12] negate(flat), sharding={devices=[2,2]<=[4] last_tile_dim_replicate}
}
)",
                               4);
  EXPECT_EQ(number_of(*module, Opcode::all_gather), 2) << ir::to_text(*module);
}

// Weights that are cut by the axis that cuts the batch are gathered, layer by layer; of a bias what
// is spread over rows, not the rows.
TEST(Partition, WhatIsCutOtherwiseIsGatheredWhereThatIsLess) {
  const auto module = on_tiles(R"(
ENTRY e {
  x = f32[64,6] parameter(0), sharding={devices=[4,1]<=[4]}
  w = f32[6,8] parameter(1), sharding={devices=[1,4]<=[4]}
  b = f32[8] parameter(2), sharding={devices=[4]<=[4]}
  y = f32[64,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[64,8] broadcast(b), dimensions={1}
  z = f32[64,8] add(y, s)
  ROOT r = f32[64,8] tanh(z), sharding={devices=[4,1]<=[4]}
}
)",
                               4);
  int gathered = 0;
  for (const auto& one : module->entry()->instructions()) {
    if (one->opcode() != Opcode::all_gather) continue;
    ++gathered;
    EXPECT_TRUE(one->shape() == ir::Shape(ir::DType::f32, {6, 8}) ||
                one->shape() == ir::Shape(ir::DType::f32, {8}))
        << ir::to_text(*module);
  }
  EXPECT_EQ(gathered, 2) << ir::to_text(*module);
}

// Operands that are cut along different axes: the product is cut along both, and so is a sum.
TEST(Partition, CutsOfBothOperandsAreTakenTogether) {
  const auto module = on_tiles(R"(
ENTRY e {
  x = f32[4,6] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  w = f32[6,8] parameter(1), sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  v = f32[8,6] parameter(2), sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  y = f32[4,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[4,6] dot(y, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  n = f32[4,6] add(z, x)
  ROOT r = (f32[4,8], f32[4,6]) tuple(y, n)
}
)",
                               4);
  EXPECT_EQ(number_of(*module, Opcode::all_gather), 0) << ir::to_text(*module);
  EXPECT_EQ(number_of(*module, Opcode::all_reduce), 1) << ir::to_text(*module);
  EXPECT_EQ(module->entry()->root()->shape().elements()[0], ir::Shape(ir::DType::f32, {2, 4}));
}

// A mark that leaves dimensions open is about those alone that it cuts.
TEST(Partition, OpenDimensionsStayAsTheyAre) {
  for (const auto& [held, columns, gathers] :
       {std::tuple("[2,2]<=[4]", 4, 0),
        std::tuple("[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate", 4, 0),
        std::tuple("[1,1,4]<=[4] last_tile_dim_replicate", 4, 0),
        std::tuple("[2,2]<=[2,2]T(1,0)", 4, 2)}) {
    const auto module = parse(std::string(R"(
HloModule m, num_partitions=4, whole_shapes=true
ENTRY e {
  x = f32[4,8] parameter(0), sharding={devices=)") +
                              held + R"(}
  y = f32[4,8] negate(x)
  ROOT m = f32[4,8] custom-call(y), custom_call_target="Sharding", sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}, open=true
}
)");
    const Status status = partition(*module).status();
    ASSERT_TRUE(status.ok()) << status.to_string();
    ASSERT_TRUE(ir::verify(*module).ok()) << ir::to_text(*module);
    EXPECT_EQ(module->entry()->root()->shape().dim(1), columns) << ir::to_text(*module);
    EXPECT_EQ(number_of(*module, Opcode::all_gather), gathers) << ir::to_text(*module);
  }
}

// A barrier stands in front of the tiles.
TEST(Partition, BarriersHoldTiles) {
  const auto module = on_tiles(R"(
ENTRY e {
  x = f32[4,6] parameter(0), sharding={devices=[2,1]<=[2]}
  y = f32[6] parameter(1), sharding={replicated}
  t = (f32[4,6], f32[6]) tuple(x, y)
  b = (f32[4,6], f32[6]) opt-barrier(t)
  z = f32[4,6] get-tuple-element(b), index=0
  ROOT r = f32[4,6] negate(z), sharding={devices=[2,1]<=[2]}
}
)",
                               2);
  EXPECT_EQ(number_of(*module, Opcode::all_gather), 0) << ir::to_text(*module);
  EXPECT_EQ(number_of(*module, Opcode::opt_barrier), 1);
}

// Parameters that a program draws of nothing that is cut are drawn by tiles, where those are what
// it gives, or what it asks for.
TEST(Partition, WhatIsWantedByTilesIsMadeByTiles) {
  const std::string program = R"(
ENTRY e {
  key = u32[] parameter(0), sharding={replicated}
  scale = f32[8] parameter(1), sharding={replicated}
  x = f32[4,6] parameter(2), sharding={replicated}
  i = u32[8,6] iota(), iota_dimension=0
  j = u32[8,6] iota(), iota_dimension=1
  keys = u32[8,6] broadcast(key), dimensions={}
  a = u32[8,6] multiply(i, keys)
  b = u32[8,6] xor(a, j)
  f = f32[8,6] convert(b)
  s = f32[8,6] broadcast(scale), dimensions={0}
  w = f32[8,6] multiply(f, s)
  t = f32[6,8] transpose(w), dimensions={1,0}
  y = f32[4,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  held = f32[4,8] custom-call(y), custom_call_target="Sharding", sharding={devices=[1,2,2]<=[4] last_tile_dim_replicate}
  n = f32[4,8] negate(held)
  ROOT r = (f32[8,6], f32[6,8], f32[4,8]) tuple(w, t, n), sharding={{devices=[2,1,2]<=[4] last_tile_dim_replicate}, {devices=[1,2,2]<=[4] last_tile_dim_replicate}, {devices=[1,2,2]<=[4] last_tile_dim_replicate}}
}
)";
  const auto module = parse("HloModule m, whole_shapes=true, num_partitions=4\n" + program);
  std::string whole = program;
  const std::size_t mark = whole.find("  held = "), end = whole.find("  n = ");
  whole.replace(mark, end - mark, "  held = f32[4,8] copy(y)\n");
  const auto as_written = parse("HloModule m\n" + whole);
  compute_on_tiles(*as_written, *module, cases::random_arguments(*as_written, 2), 1e-5);
  EXPECT_EQ(number_of(*module, Opcode::all_gather), 0) << ir::to_text(*module);
  for (const auto& one : module->entry()->instructions()) {
    const bool is_made = one->opcode() != Opcode::iota && one->shape().is_array();
    EXPECT_FALSE(is_made && one->shape().rank() == 2 && one->shape().element_count() == 48)
        << one->name() << ir::to_text(*module);
  }
}

// Which the interpreter does not compute.
TEST(Partition, MatricesOfABatchAreSolvedByThoseWhoHaveThem) {
  const auto module = parse(R"(
HloModule m, whole_shapes=true, num_partitions=2
ENTRY e {
  x = f32[2,3,3] parameter(0), sharding={devices=[2,1,1]<=[2]}
  b = f32[2,3,2] parameter(1), sharding={devices=[2,1,1]<=[2]}
  l = f32[2,3,3] cholesky(x), lower=true
  s = f32[2,3,2] triangular-solve(l, b), left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE
  f = (f32[2,3,3], s32[2,3], s32[2]) custom-call(x), custom_call_target="lapack_sgetrf_ffi", api_version=API_VERSION_TYPED_FFI
  p = s32[2,3] get-tuple-element(f), index=1
  i = s32[2] get-tuple-element(f), index=2
  ROOT r = (f32[2,3,2], s32[2,3], s32[2]) tuple(s, p, i), sharding={{devices=[2,1,1]<=[2]}, {devices=[2,1]<=[2]}, {devices=[2]<=[2]}}
}
)");
  const Status status = partition(*module).status();
  ASSERT_TRUE(status.ok()) << status.to_string();
  ASSERT_TRUE(ir::verify(*module).ok()) << ir::to_text(*module);
  EXPECT_EQ(number_of(*module, Opcode::all_gather), 0) << ir::to_text(*module);
}

TEST(Partition, SaysWhichPartitionsAreMissing) {
  std::string text = kRegion;
  text.replace(text.find("num_partitions=4"), 16, "num_partitions=8");
  const Status status = partition(*parse(text)).status();
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_NE(status.message().find("devices=[2,1,2]"), std::string::npos) << status.to_string();
}

TEST(OrderCollectives, EveryMeetingWaitsForTheOneBefore) {
  const auto module = parse(std::string("HloModule m, replica_count=2\n") + std::string(kSums) + R"(
ENTRY e {
  x = f32[4] parameter(0)
  a = f32[4] all-reduce(x), replica_groups={}, to_apply=sum
  n = f32[4] negate(x)
  start = f32[4] all-reduce-start(n), replica_groups={}, to_apply=sum
  done = f32[4] all-reduce-done(start)
  p = f32[4] collective-permute(x), source_target_pairs={{0,1}}
  ROOT t = (f32[4], f32[4], f32[4]) tuple(a, done, p)
}
)");
  const auto changed = order_collectives(*module);
  ASSERT_TRUE(changed.ok());
  EXPECT_TRUE(*changed);
  const ir::Computation& entry = *module->entry();
  EXPECT_EQ(entry.find("start")->control_predecessors(),
            std::vector<ir::Instruction*>{entry.find("a")});
  EXPECT_EQ(entry.find("p")->control_predecessors(),
            std::vector<ir::Instruction*>{entry.find("start")});
  EXPECT_TRUE(entry.find("done")->control_predecessors().empty());
}

}  // namespace
}  // namespace plimsoll::passes
