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
#include "runtime/passes/partition/retile.h"
#include "runtime/passes/partition/tile_rules.h"

namespace plimsoll::passes {

using ir::Attributes;
using ir::Dims;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;
using ir::Sharding;

namespace {

// Zeros instead of the array where the table has no zero for this partition.
Instruction* add_unless(Instruction* tile, Instruction* partition,
                        const std::vector<std::int64_t>& others) {
  ir::Computation& computation = *tile->parent();
  Instruction* const is_other = add_look_up(computation, partition, others);
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
  std::vector<std::int64_t> others;
  const std::int64_t partitions = tile->parent()->module()->num_partitions;
  for (const std::int64_t one : sharding.summand_of_partition(partitions)) {
    others.push_back(one == 0 ? 0 : 1);
  }
  return add_unless(tile, add_partition(*tile->parent()), others);
}

// Where the parts that partitions have by one sharding lie in the tiles that they have summands of
// by another, so that each summand is zeros around the part, and all that is to be summed has each
// part once.
struct TileParts {
  std::vector<std::vector<std::int64_t>> starts;  // by dimension and partition
  std::vector<std::int64_t> spare;  // by partition: not zero where another one has the same part
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
      made.starts[d].push_back(part[d] % inside * size);
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

Instruction* add_part(Instruction* part, const Shape& tile, const TileParts& parts) {
  ir::Computation& computation = *part->parent();
  Instruction* const partition = add_partition(computation);
  const bool is_needed = std::find(parts.spare.begin(), parts.spare.end(), 1) != parts.spare.end();
  if (is_needed) part = add_unless(part, partition, parts.spare);
  Instruction* const zero = computation.add_constant(ir::Literal(Shape(tile.dtype(), {})));
  std::vector<Instruction*> operands{computation.add(Opcode::broadcast, tile, {zero}), part};
  for (const auto& starts : parts.starts) {
    operands.push_back(add_look_up(computation, partition, starts));
  }
  return computation.add(Opcode::dynamic_update_slice, tile, std::move(operands));
}

}  // namespace

Instruction* add_masked(Instruction* tile, int dimension, std::int64_t size,
                        const Sharding& sharding, Instruction* value) {
  if (ir::is_even(size, sharding, dimension)) return tile;
  ir::Computation& computation = *tile->parent();
  const std::int64_t partitions = computation.module()->num_partitions;
  const std::int64_t most = tile->shape().dim(dimension);
  std::vector<std::int64_t> counts;
  for (const std::int64_t one : sharding.tile_of_partition(partitions)) {
    const std::int64_t first = sharding.place_of_tile(one)[at(dimension)] * most;
    counts.push_back(std::clamp<std::int64_t>(size - first, 0, most));
  }
  Instruction* const count = add_look_up(computation, add_partition(computation), counts);
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

namespace {

// The tile of what is the same along the dimensions that are cut is made as it is; null: of others.
Instruction* add_made_tile(Instruction* whole, const Shape& tile, const Sharding& sharding,
                           std::int64_t& channel) {
  ir::Computation& computation = *whole->parent();
  Attributes attributes = whole->attributes();
  std::erase_if(attributes.extra, [](const auto& one) { return one.first == "sharding"; });
  const auto& dimensions = attributes.dimensions;
  if (whole->opcode() == Opcode::iota && sharding.tiles[at(dimensions[0])] == 1) {
    return computation.add(Opcode::iota, tile, {}, {}, std::move(attributes));
  }
  if (whole->opcode() != Opcode::broadcast) return nullptr;
  Instruction* const from = whole->operand(0);
  std::vector<int> along(dimensions.begin(), dimensions.end());
  const std::int64_t partitions = computation.module()->num_partitions;
  const Sharding of = carried(sharding, along, partitions);
  Instruction* const part = Retiling(from->shape(), Sharding(), of, partitions).add(from, channel);
  return computation.add(Opcode::broadcast, tile, {part}, {}, std::move(attributes));
}

}  // namespace

Result<Instruction*> add_tile(Instruction* whole, const Sharding& sharding) {
  if (sharding.is_replicated()) return whole;
  if (sharding.is_summed()) {
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const tile, add_tile(whole, sharding.summed()));
    return add_summand(tile, sharding);
  }
  PLIMSOLL_ASSIGN_OR_RETURN(const Shape tile, ir::tile_shape(whole->shape(), sharding));
  std::int64_t channel = 0;  // nobody is told anything
  if (Instruction* const made = add_made_tile(whole, tile, sharding, channel)) return made;
  const std::int64_t partitions = whole->parent()->module()->num_partitions;
  return Retiling(whole->shape(), Sharding(), sharding, partitions).add(whole, channel);
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
  const std::int64_t partitions = tile->parent()->module()->num_partitions;
  return Retiling(shape, sharding, Sharding(), partitions).add(tile, channel);
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

KnownTiles::KnownTiles(const ir::Module& module)
    : channel_(std::make_shared<std::int64_t>(ir::unused_channel(module))) {}

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

const KnownTiles::Tile* KnownTiles::find_offered(const Instruction* whole) const {
  return find_in(offered_, whole);
}

Result<Instruction*> KnownTiles::tile_of(Instruction* whole, const Sharding& sharding) {
  const std::int64_t partitions = whole->parent()->module()->num_partitions;
  if (sharding.is_summed()) {
    for (const Known* const known : {&summands_, &offered_}) {
      const Tile* const found = find_in(*known, whole);
      if (found != nullptr && are_same_tiles(found->sharding, sharding, partitions)) {
        return found->at;
      }
    }
    // However many zeros are summed.
    if (are_zeros(*whole)) return tile_of(whole, sharding.summed());
    if (const Tile* const held = find(whole)) {
      PLIMSOLL_ASSIGN_OR_RETURN(const Shape tile, ir::tile_shape(whole->shape(), sharding));
      const auto parts = find_parts(whole->shape(), held->sharding, sharding, partitions);
      if (parts) return add_part(held->at, tile, *parts);
    }
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const tile, tile_of(whole, sharding.summed()));
    return add_summand(tile, sharding);
  }
  const Tile* const known = find(whole);
  while (is_sharding_mark(*whole)) whole = whole->operand(0);
  if (known == nullptr) return add_tile(whole, sharding);
  if (sharding.is_replicated()) return whole;
  if (are_same_tiles(known->sharding, sharding, partitions)) return known->at;
  PLIMSOLL_RETURN_IF_ERROR(ir::tile_shape(whole->shape(), sharding).status());
  for (const Tile& one : others_[whole]) {
    if (are_same_tiles(one.sharding, sharding, partitions)) return one.at;
  }
  PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const made, retiled(*known, whole->shape(), sharding));
  others_[whole].push_back({sharding, made});
  return made;
}

namespace {

// What goes to others where a tile becomes another one: of what a broadcast spreads, what it
// spreads.
struct Moved {
  Shape shape;  // whole
  Sharding from, to;

  Retiling retiling(std::int64_t partitions) const { return {shape, from, to, partitions}; }
};
Moved moved_of(const KnownTiles::Tile& known, bool is_spread, const Shape& whole,
               const Sharding& to) {
  if (!is_spread) return {whole, known.sharding, to};
  const auto& dimensions = known.at->attributes().dimensions;
  const std::vector<int> along(dimensions.begin(), dimensions.end());
  const std::int64_t partitions = known.at->parent()->module()->num_partitions;
  Dims dims;
  for (const int d : along) dims.push_back(whole.dim(d));
  return {Shape(whole.dtype(), dims), carried(known.sharding, along, partitions),
          to.is_replicated() ? Sharding() : carried(to, along, partitions)};
}

}  // namespace

Result<Instruction*> KnownTiles::retiled(const Tile& known, const Shape& whole,
                                         const Sharding& sharding) {
  ir::Computation& computation = *known.at->parent();
  const bool is_spread = spread_.contains(known.at);
  Instruction* const made = moved_of(known, is_spread, whole, sharding)
                                .retiling(computation.module()->num_partitions)
                                .add(is_spread ? known.at->operand(0) : known.at, *channel_);
  if (!is_spread) return made;
  PLIMSOLL_ASSIGN_OR_RETURN(Shape shape, ir::tile_shape(whole, sharding));
  return computation.add(Opcode::broadcast, std::move(shape), {made}, {}, known.at->attributes());
}

std::int64_t KnownTiles::received_bytes(const Instruction* whole, const Sharding& sharding) const {
  const Tile* const known = find(whole);
  if (known == nullptr) return 0;
  return moved_of(*known, spread_.contains(known->at), whole->shape(), sharding)
      .retiling(whole->parent()->module()->num_partitions)
      .received_bytes();
}

std::span<const KnownTiles::Tile> KnownTiles::others(const Instruction* whole) const {
  while (is_sharding_mark(*whole)) whole = whole->operand(0);
  const auto found = others_.find(whole);
  return found == others_.end() ? std::span<const Tile>() : std::span(found->second);
}

Result<Instruction*> KnownTiles::add_whole_of(Instruction* tile, const Shape& shape,
                                              const Sharding& sharding) {
  if (sharding.is_summed()) {
    Instruction* const sum = add_sum(tile, sharding, *channel_);
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const whole,
                              add_whole_of(sum, shape, sharding.summed()));
    summands_[whole] = {sharding, tile};
    return whole;
  }
  PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const whole, add_whole(tile, shape, sharding, *channel_));
  if (whole != tile) tiles_[whole] = {sharding, tile};
  return whole;
}

std::vector<Shape> shapes_of(const Shape& shape) {
  return shape.is_tuple() ? shape.elements() : std::vector<Shape>{shape};
}

std::vector<Instruction*> arrays_of(Instruction* value) {
  if (!value->shape().is_tuple()) return {value};
  if (value->opcode() == Opcode::tuple) {
    return {value->operands().begin(), value->operands().end()};
  }
  std::vector<Instruction*> made;
  for (std::size_t i = 0; i < value->shape().elements().size(); ++i) {
    made.push_back(value->parent()->add_get_tuple_element(value, static_cast<std::int64_t>(i)));
  }
  return made;
}

Result<Instruction*> KnownTiles::add_wholes_of(Instruction* tiles, const Shape& whole,
                                               const std::vector<Sharding>& held) {
  const std::vector<Shape> shapes = shapes_of(whole);
  const std::vector<Instruction*> arrays = arrays_of(tiles);
  std::vector<Instruction*> wholes;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const one, add_whole_of(arrays[i], shapes[i], held[i]));
    wholes.push_back(one);
  }
  return whole.is_tuple() ? tiles->parent()->add_tuple(std::move(wholes)) : wholes[0];
}

}  // namespace plimsoll::passes
