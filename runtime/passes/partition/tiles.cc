// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/partition/tiles.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/participants.h"
#include "runtime/ir/shapes/builder.h"

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

Instruction* add_partition(ir::Computation& computation) {
  Instruction* const id = computation.add(Opcode::partition_id, Shape(DType::u32, {}), {});
  return computation.add(Opcode::convert, Shape(DType::s32, {}), {id});
}

// Zeros instead of the array where the table has no zero for this partition.
Instruction* add_unless(Instruction* tile, Instruction* partition,
                        std::vector<std::int32_t> others) {
  ir::Computation& computation = *tile->parent();
  Instruction* const is_other = add_look_up(computation, partition, std::move(others));
  Instruction* const zero = computation.add_constant(ir::Literal::scalar(std::int32_t{0}));
  Attributes compares;
  compares.comparison_direction = ir::ComparisonDirection::eq;
  Instruction* const is_first = computation.add(Opcode::compare, Shape(DType::pred, {}),
                                                {is_other, zero}, {}, std::move(compares));
  Instruction* const nothing =
      computation.add_constant(ir::Literal(Shape(tile->shape().dtype(), {})));
  const auto spread = [&](Instruction* scalar) {
    return computation.add(Opcode::broadcast, Shape(scalar->shape().dtype(), tile->shape().dims()),
                           {scalar});
  };
  return computation.add(Opcode::select, tile->shape(), {spread(is_first), tile, spread(nothing)});
}

// What all have as the first holder's summand, and zeros as the others'.
Instruction* add_summand(Instruction* tile, const Sharding& sharding) {
  std::vector<std::int32_t> others;
  const std::int64_t partitions = tile->parent()->module()->num_partitions;
  for (const std::int64_t one : sharding.summand_of_partition(partitions)) {
    others.push_back(one == 0 ? 0 : 1);
  }
  return add_unless(tile, add_partition(*tile->parent()), std::move(others));
}

// Where the parts that partitions have by one sharding lie in the tiles that they have summands of
// by another, so that each summand is zeros around the part, and all that is to be summed has each
// part once.
struct TileParts {
  std::vector<std::vector<std::int32_t>> starts;  // by dimension and partition
  std::vector<std::int32_t> spare;  // by partition: not zero where another one has the same part
};
std::optional<TileParts> find_parts(const Shape& whole, const Sharding& held,
                                    const Sharding& wanted, std::int64_t partitions) {
  const std::vector<std::int64_t> tile_of = wanted.tile_of_partition(partitions);
  const std::vector<std::int64_t> part_of = held.tile_of_partition(partitions);
  const std::vector<std::int64_t> copy_of = wanted.copy_of_partition(partitions);
  const std::int64_t each = wanted.copies / wanted.summands;
  std::int64_t parts = 1;  // of a tile
  for (std::size_t d = 0; d < held.tiles.size(); ++d) {
    const bool is_even = ir::is_even(whole.dim(static_cast<int>(d)), held, static_cast<int>(d));
    if (!is_even || held.tiles[d] % wanted.tiles[d] != 0) return std::nullopt;
    parts *= held.tiles[d] / wanted.tiles[d];
  }
  if (parts == 1) return std::nullopt;
  TileParts made;
  made.starts.resize(held.tiles.size());
  made.spare.assign(at(partitions), 0);
  // By tile and by which of its sums.
  std::map<std::pair<std::int64_t, std::int64_t>, std::set<std::int64_t>> found;
  for (std::int64_t p = 0; p < partitions; ++p) {
    const std::vector<std::int64_t> place = wanted.place_of_tile(tile_of[at(p)]);
    const std::vector<std::int64_t> part = held.place_of_tile(part_of[at(p)]);
    for (std::size_t d = 0; d < place.size(); ++d) {
      const std::int64_t inside = held.tiles[d] / wanted.tiles[d];
      if (part[d] / inside != place[d]) return std::nullopt;
      const std::int64_t size = whole.dim(static_cast<int>(d)) / held.tiles[d];
      made.starts[d].push_back(static_cast<std::int32_t>(part[d] % inside * size));
    }
    const bool is_new =
        found[{tile_of[at(p)], copy_of[at(p)] % each}].insert(part_of[at(p)]).second;
    made.spare[at(p)] = is_new ? 0 : 1;
  }
  for (const auto& [sum, has] : found) {
    if (std::ssize(has) != parts) return std::nullopt;
  }
  return made;
}

Instruction* add_part(Instruction* part, const Shape& tile, TileParts parts) {
  ir::Computation& computation = *part->parent();
  Instruction* const partition = add_partition(computation);
  const bool is_needed = std::find(parts.spare.begin(), parts.spare.end(), 1) != parts.spare.end();
  if (is_needed) part = add_unless(part, partition, std::move(parts.spare));
  Instruction* const zero = computation.add_constant(ir::Literal(Shape(tile.dtype(), {})));
  std::vector<Instruction*> operands{computation.add(Opcode::broadcast, tile, {zero}), part};
  for (auto& starts : parts.starts) {
    operands.push_back(add_look_up(computation, partition, std::move(starts)));
  }
  return computation.add(Opcode::dynamic_update_slice, tile, std::move(operands));
}

// The array with zeros behind it, so that every tile lies in it.
Instruction* add_padded(Instruction* whole, const Shape& tile, const Sharding& sharding) {
  Dims dims = tile.dims();
  Attributes attributes;
  for (int d = 0; d < tile.rank(); ++d) {
    dims[d] *= sharding.tiles[at(d)];
    attributes.padding.push_back({0, dims[d] - whole->shape().dim(d), 0});
  }
  if (dims == whole->shape().dims()) return whole;
  ir::Computation& computation = *whole->parent();
  Instruction* const zero = computation.add_constant(ir::Literal(Shape(tile.dtype(), {})));
  return computation.add(Opcode::pad, Shape(tile.dtype(), dims), {whole, zero}, {},
                         std::move(attributes));
}

}  // namespace

Instruction* add_masked(Instruction* tile, int dimension, std::int64_t size,
                        const Sharding& sharding, Instruction* value) {
  if (ir::is_even(size, sharding, dimension)) return tile;
  ir::Computation& computation = *tile->parent();
  const std::int64_t partitions = computation.module()->num_partitions;
  const std::int64_t most = tile->shape().dim(dimension);
  std::vector<std::int32_t> counts;
  for (const std::int64_t one : sharding.tile_of_partition(partitions)) {
    const std::int64_t first = sharding.place_of_tile(one)[at(dimension)] * most;
    counts.push_back(static_cast<std::int32_t>(std::clamp<std::int64_t>(size - first, 0, most)));
  }
  Instruction* const count =
      add_look_up(computation, add_partition(computation), std::move(counts));
  const Shape places(DType::s32, tile->shape().dims());
  Attributes along;
  along.dimensions = {dimension};
  Instruction* const place = computation.add(Opcode::iota, places, {}, {}, std::move(along));
  Instruction* const end = computation.add(Opcode::broadcast, places, {count});
  Attributes below;
  below.comparison_direction = ir::ComparisonDirection::lt;
  Instruction* const is_inside = computation.add(Opcode::compare, Shape(DType::pred, places.dims()),
                                                 {place, end}, {}, std::move(below));
  Instruction* const beyond = computation.add(Opcode::broadcast, tile->shape(), {value});
  return computation.add(Opcode::select, tile->shape(), {is_inside, tile, beyond});
}

Result<Instruction*> add_tile(Instruction* whole, const Sharding& sharding) {
  if (sharding.is_replicated()) return whole;
  if (sharding.is_summed()) {
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const tile, add_tile(whole, sharding.summed()));
    return add_summand(tile, sharding);
  }
  PLIMSOLL_ASSIGN_OR_RETURN(const Shape tile, ir::tile_shape(whole->shape(), sharding));
  ir::Computation& computation = *whole->parent();
  const std::int64_t partitions = computation.module()->num_partitions;
  const std::vector<std::int64_t> tiles = sharding.tile_of_partition(partitions);
  Instruction* const partition = add_partition(computation);
  std::vector<Instruction*> operands{add_padded(whole, tile, sharding)};
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
    if (dims[static_cast<int>(d)] == shape.dim(static_cast<int>(d))) continue;
    Attributes inside;
    inside.slice_starts.assign(at(dims.size()), 0);
    inside.slice_strides.assign(at(dims.size()), 1);
    dims[static_cast<int>(d)] = shape.dim(static_cast<int>(d));
    inside.slice_limits = dims.to_vector();
    made =
        computation.add(Opcode::slice, Shape(shape.dtype(), dims), {made}, {}, std::move(inside));
  }
  return made;
}

Instruction* add_sum(Instruction* summand, const Sharding& sharding, std::int64_t& channel) {
  ir::Module& module = *summand->parent()->module();
  const std::int64_t partitions = module.num_partitions;
  auto collective = std::make_shared<ir::CollectiveAttributes>();
  collective->channel_id = channel++;
  collective->use_global_device_ids = true;
  const std::int64_t each = sharding.copies / sharding.summands;
  for (std::int64_t r = 0; r < module.replica_count; ++r) {
    for (std::int64_t first = 0; first < partitions; first += sharding.copies) {
      for (std::int64_t copy = 0; copy < each; ++copy) {
        auto& group = collective->replica_groups.emplace_back();
        for (std::int64_t s = 0; s < sharding.summands; ++s) {
          group.push_back(r * partitions + sharding.holders[at(first + s * each + copy)]);
        }
      }
    }
  }
  Attributes attributes;
  attributes.collective = std::move(collective);
  const Shape& shape = summand->shape();
  const bool is_truth = shape.dtype() == DType::pred;
  Instruction* const sum =
      summand->parent()->add(Opcode::all_reduce, shape, {summand}, {}, std::move(attributes));
  sum->set_called_computations(
      {ir::scalar_computation(module, is_truth ? Opcode::or_ : Opcode::add, shape.dtype())});
  return sum;
}

bool are_same_tiles(const Sharding& a, const Sharding& b, std::int64_t partitions) {
  if (a.summands != b.summands) return false;
  if (a.is_summed() && a.summand_of_partition(partitions) != b.summand_of_partition(partitions)) {
    return false;
  }
  return a.tiles == b.tiles && a.tile_of_partition(partitions) == b.tile_of_partition(partitions);
}

bool is_sharding_mark(const Instruction& instruction) {
  return instruction.opcode() == Opcode::custom_call &&
         instruction.attributes().custom_call_target == "Sharding";
}

KnownTiles::KnownTiles(const ir::Module& module) : channel_(ir::unused_channel(module)) {}

namespace {

using Known = std::unordered_map<const Instruction*, KnownTiles::Tile>;

const KnownTiles::Tile* find_in(const Known& known, const Instruction* whole) {
  while (is_sharding_mark(*whole)) whole = whole->operand(0);
  const auto found = known.find(whole);
  return found == known.end() ? nullptr : &found->second;
}

}  // namespace

const KnownTiles::Tile* KnownTiles::find(const Instruction* whole) const {
  return find_in(tiles_, whole);
}

const KnownTiles::Tile* KnownTiles::find_summands(const Instruction* whole) const {
  return find_in(summands_, whole);
}

Result<Instruction*> KnownTiles::tile_of(Instruction* whole, const Sharding& sharding) const {
  const std::int64_t partitions = whole->parent()->module()->num_partitions;
  if (sharding.is_summed()) {
    for (const Known* const known : {&summands_, &offered_}) {
      const Tile* const found = find_in(*known, whole);
      if (found != nullptr && are_same_tiles(found->sharding, sharding, partitions)) {
        return found->at;
      }
    }
    if (const Tile* const held = find(whole)) {
      PLIMSOLL_ASSIGN_OR_RETURN(const Shape tile, ir::tile_shape(whole->shape(), sharding));
      auto parts = find_parts(whole->shape(), held->sharding, sharding, partitions);
      if (parts) return add_part(held->at, tile, std::move(*parts));
    }
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const tile, tile_of(whole, sharding.summed()));
    return add_summand(tile, sharding);
  }
  const Tile* const known = find(whole);
  if (known != nullptr && are_same_tiles(known->sharding, sharding, partitions)) return known->at;
  while (is_sharding_mark(*whole)) whole = whole->operand(0);
  return add_tile(whole, sharding);
}

Result<Instruction*> KnownTiles::add_whole_of(Instruction* tile, const Shape& shape,
                                              const Sharding& sharding) {
  if (sharding.is_summed()) {
    Instruction* const sum = add_sum(tile, sharding, channel_);
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const whole,
                              add_whole_of(sum, shape, sharding.summed()));
    summands_[whole] = {sharding, tile};
    return whole;
  }
  PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const whole, add_whole(tile, shape, sharding, channel_));
  if (whole != tile) tiles_[whole] = {sharding, tile};
  return whole;
}

}  // namespace plimsoll::passes
