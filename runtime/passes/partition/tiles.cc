// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/partition/tiles.h"

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/participants.h"

namespace plimsoll::passes {

using ir::Attributes;
using ir::Dims;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;
using ir::Sharding;

namespace {

// The number that a table has for this partition.
Instruction* add_look_up(ir::Computation& computation, Instruction* partition,
                         std::vector<std::int32_t> table) {
  const auto count = static_cast<std::int64_t>(table.size());
  Instruction* const all = computation.add_constant(
      ir::Literal::array<std::int32_t>({count}, std::span<const std::int32_t>(table)));
  Attributes attributes;
  attributes.slice_sizes = {1};
  Instruction* const one = computation.add(Opcode::dynamic_slice, Shape(DType::s32, {1}),
                                           {all, partition}, {}, std::move(attributes));
  return computation.add(Opcode::reshape, Shape(DType::s32, {}), {one});
}

}  // namespace

Result<Instruction*> add_tile(Instruction* whole, const Sharding& sharding) {
  if (sharding.is_replicated()) return whole;
  PLIMSOLL_ASSIGN_OR_RETURN(const Shape tile, ir::tile_shape(whole->shape(), sharding));
  ir::Computation& computation = *whole->parent();
  const std::int64_t partitions = computation.module()->num_partitions;
  const std::vector<std::int64_t> tiles = sharding.tile_of_partition(partitions);
  Instruction* const id = computation.add(Opcode::partition_id, Shape(DType::u32, {}), {});
  Instruction* const partition = computation.add(Opcode::convert, Shape(DType::s32, {}), {id});
  std::vector<Instruction*> operands{whole};
  for (int d = 0; d < tile.rank(); ++d) {
    if (sharding.tiles[at(d)] == 1) {
      operands.push_back(computation.add_constant(ir::Literal::scalar(std::int32_t{0})));
      continue;
    }
    std::vector<std::int32_t> starts;
    for (const std::int64_t one : tiles) {
      starts.push_back(static_cast<std::int32_t>(sharding.place_of_tile(one)[at(d)] * tile.dim(d)));
    }
    operands.push_back(add_look_up(computation, partition, std::move(starts)));
  }
  Attributes attributes;
  attributes.slice_sizes = tile.dims().to_vector();
  return computation.add(Opcode::dynamic_slice, tile, std::move(operands), {},
                         std::move(attributes));
}

Result<Instruction*> add_whole(Instruction* tile, const Shape& shape, const Sharding& sharding,
                               std::int64_t& channel) {
  if (sharding.is_replicated()) return tile;
  PLIMSOLL_ASSIGN_OR_RETURN(const Shape expected, ir::tile_shape(shape, sharding));
  if (!(tile->shape() == expected)) {
    return invalid_argument("'" + tile->name() + "' is " + tile->shape().to_string() +
                            ", a tile of " + shape.to_string() + " by " + ir::to_string(sharding) +
                            " is " + expected.to_string());
  }
  ir::Computation& computation = *tile->parent();
  const ir::Module& module = *computation.module();
  const std::int64_t partitions = module.num_partitions;
  const std::vector<std::int64_t> tiles = sharding.tile_of_partition(partitions);
  // Copies of a tile gather apart: the n-th holder of each tile with the n-th of the others.
  const std::vector<std::int64_t> copy_of = sharding.copy_of_partition(partitions);
  Instruction* made = tile;
  for (std::size_t d = 0; d < sharding.tiles.size(); ++d) {
    if (sharding.tiles[d] == 1) continue;
    // By what they do not differ in, members by their place along the dimension.
    std::map<std::vector<std::int64_t>, std::map<std::int64_t, std::int64_t>> groups;
    for (std::int64_t p = 0; p < partitions; ++p) {
      std::vector<std::int64_t> key = sharding.place_of_tile(tiles[at(p)]);
      const std::int64_t place = std::exchange(key[d], 0);
      key.push_back(copy_of[at(p)]);
      groups[key][place] = p;
    }
    auto collective = std::make_shared<ir::CollectiveAttributes>();
    collective->channel_id = channel++;
    collective->use_global_device_ids = true;
    for (std::int64_t r = 0; r < module.replica_count; ++r) {
      for (const auto& [key, members] : groups) {
        auto& group = collective->replica_groups.emplace_back();
        for (const auto& [place, p] : members) group.push_back(r * partitions + p);
      }
    }
    Dims dims = made->shape().dims();
    dims[static_cast<int>(d)] *= sharding.tiles[d];
    Attributes attributes;
    attributes.dimensions = {static_cast<std::int64_t>(d)};
    attributes.collective = std::move(collective);
    made = computation.add(Opcode::all_gather, Shape(shape.dtype(), dims), {made}, {},
                           std::move(attributes));
  }
  return made;
}

bool are_same_tiles(const Sharding& a, const Sharding& b, std::int64_t partitions) {
  return a.tiles == b.tiles && a.tile_of_partition(partitions) == b.tile_of_partition(partitions);
}

bool is_sharding_mark(const Instruction& instruction) {
  return instruction.opcode() == Opcode::custom_call &&
         instruction.attributes().custom_call_target == "Sharding";
}

KnownTiles::KnownTiles(const ir::Module& module) : channel_(ir::unused_channel(module)) {}

const KnownTiles::Tile* KnownTiles::find(const Instruction* whole) const {
  while (is_sharding_mark(*whole)) whole = whole->operand(0);
  const auto found = tiles_.find(whole);
  return found == tiles_.end() ? nullptr : &found->second;
}

Result<Instruction*> KnownTiles::tile_of(Instruction* whole, const Sharding& sharding) const {
  const std::int64_t partitions = whole->parent()->module()->num_partitions;
  const Tile* const known = find(whole);
  if (known != nullptr && are_same_tiles(known->sharding, sharding, partitions)) return known->at;
  while (is_sharding_mark(*whole)) whole = whole->operand(0);
  return add_tile(whole, sharding);
}

Result<Instruction*> KnownTiles::add_whole_of(Instruction* tile, const Shape& shape,
                                              const Sharding& sharding) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const whole, add_whole(tile, shape, sharding, channel_));
  if (whole != tile) tiles_[whole] = {sharding, tile};
  return whole;
}

}  // namespace plimsoll::passes
