// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/partition/tile_ways.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "runtime/base/index.h"

namespace plimsoll::passes {

using ir::Instruction;
using ir::Opcode;
using ir::Sharding;

namespace {

// Dimensions of some arrays, and which part of each every partition works on.
struct Space {
  std::vector<std::int64_t> counts;
  std::vector<std::vector<std::int64_t>> places;  // [dimension][partition]

  // None where tiles are not all there, in as many copies.
  std::optional<Sharding> sharding(std::int64_t partitions) const {
    Sharding made;
    made.tiles = counts;
    std::int64_t tiles = 1;
    for (const std::int64_t count : counts) {
      if (count > partitions / tiles) return std::nullopt;
      tiles *= count;
    }
    if (tiles == 1) return Sharding();
    std::vector<std::vector<std::int64_t>> holders(at(tiles));
    for (std::int64_t p = 0; p < partitions; ++p) {
      std::int64_t tile = 0;
      for (std::size_t d = 0; d < counts.size(); ++d) tile = tile * counts[d] + places[d][at(p)];
      holders[at(tile)].push_back(p);
    }
    made.copies = partitions / tiles;
    for (const auto& one : holders) {
      if (static_cast<std::int64_t>(one.size()) != made.copies) return std::nullopt;
      made.holders.insert(made.holders.end(), one.begin(), one.end());
    }
    return made;
  }
};

void add_dimensions(Space& space, const Sharding& sharding, int rank, std::int64_t partitions) {
  const std::vector<std::int64_t> tiles = sharding.tile_of_partition(partitions);
  for (int d = 0; d < rank; ++d) {
    space.counts.push_back(sharding.tiles[at(d)]);
    auto& places = space.places.emplace_back();
    for (const std::int64_t tile : tiles) {
      places.push_back(sharding.place_of_tile(tile)[at(d)]);
    }
  }
}

// What an operand of which tiles are known says.
struct Seen {
  int operand = 0;
  Sharding sharding;
  Rule rule;
};

// Instructions whose dimensions may be cut at the same time, each as any operand has it.
bool takes_cuts_together(const Instruction& at) {
  switch (at.opcode()) {
    case Opcode::dot:
    case Opcode::convolution:
    case Opcode::gather:
    case Opcode::concatenate:
    case Opcode::dynamic_update_slice:
      return true;
    default:
      return at.shape().is_array() && ir::is_elementwise(at.opcode());
  }
}

// What `first` says, with the cuts of the others along dimensions that it leaves uncut, one by one
// as far as they agree.
Way together(const Instruction& at, const Seen& first, const std::vector<Seen>& all,
             std::int64_t partitions) {
  Way way{first.rule, first.sharding, 0};
  const auto rank_of = [&](const Seen& one) { return at.operand(one.operand)->shape().rank(); };
  Space space;
  add_dimensions(space, first.sharding, rank_of(first), partitions);
  for (const Seen& other : all) {
    if (&other == &first) continue;
    // The dimensions of the other operand among those of the space.
    std::vector<int> of = way.rule.operands[plimsoll::at(other.operand)];
    if (of.empty()) continue;  // taken whole
    Space own;
    add_dimensions(own, other.sharding, rank_of(other), partitions);
    for (int d = 0; d < rank_of(other); ++d) {
      int& place = of[plimsoll::at(d)];
      const bool is_new = place < 0;
      if (is_new) {
        place = static_cast<int>(space.counts.size());
        space.counts.push_back(1);
        space.places.emplace_back(plimsoll::at(partitions), 0);
      }
      if (own.counts[plimsoll::at(d)] == 1 || space.counts[plimsoll::at(place)] != 1) continue;
      std::swap(space.counts[plimsoll::at(place)], own.counts[plimsoll::at(d)]);
      std::swap(space.places[plimsoll::at(place)], own.places[plimsoll::at(d)]);
      if (space.sharding(partitions)) continue;
      std::swap(space.counts[plimsoll::at(place)], own.counts[plimsoll::at(d)]);
      std::swap(space.places[plimsoll::at(place)], own.places[plimsoll::at(d)]);
    }
    const auto take = [&](Along& along, const Along& others) {
      if (along.empty()) along.assign(others.size(), -1);
      for (std::size_t d = 0; d < others.size(); ++d) {
        if (along[d] < 0 && others[d] >= 0) along[d] = of[plimsoll::at(others[d])];
      }
    };
    for (std::size_t i = 0; i < way.rule.operands.size(); ++i) {
      if (!other.rule.operands[i].empty()) take(way.rule.operands[i], other.rule.operands[i]);
    }
    take(way.rule.result, other.rule.result);
    if (way.rule.reducer == nullptr) way.rule.reducer = other.rule.reducer;
  }
  way.seen = *space.sharding(partitions);
  if (way.seen.tiles.size() < space.counts.size()) way.seen.tiles = space.counts;
  return way;
}

// None where operands have no such tiles.
std::optional<std::int64_t> cost_bytes(const Instruction& at, const Way& way,
                                       const KnownTiles& tiles, std::int64_t partitions) {
  std::int64_t bytes = 0;
  for (int i = 0; i < at.operand_count(); ++i) {
    const Sharding wanted = carried(way.seen, way.rule.operands[plimsoll::at(i)], partitions);
    const ir::Shape& shape = at.operand(i)->shape();
    if (!ir::tile_shape(shape, wanted).ok()) return std::nullopt;
    bytes += tiles.received_bytes(at.operand(i), wanted);
  }
  if (!at.shape().is_array()) return bytes;
  const Sharding held = carried(way.seen, way.rule.result, partitions);
  const auto shape = ir::tile_shape(at.shape(), held);
  if (!shape.ok()) return std::nullopt;
  const auto count = [](const Sharding& sharding) {
    std::int64_t product = 1;
    for (const std::int64_t one : sharding.tiles) product *= one;
    return product;
  };
  // A sum is scattered, and gathered.
  const bool is_summed = reduces(at) && count(way.seen) > count(held);
  return bytes + shape->byte_size() * (is_summed ? 6 : 4);
}

// With all operands whole.
std::int64_t whole_cost_bytes(const Instruction& at, const KnownTiles& tiles) {
  std::int64_t bytes = 4 * at.shape().byte_size();
  for (const Instruction* const operand : at.operands()) {
    bytes += tiles.received_bytes(operand, Sharding());
  }
  return bytes;
}

}  // namespace

bool reduces(const Instruction& at) {
  return at.opcode() == Opcode::dot || at.opcode() == Opcode::reduce ||
         at.opcode() == Opcode::convolution || at.opcode() == Opcode::scatter ||
         at.opcode() == Opcode::gather;
}

std::vector<Way> ways_of(const Instruction& at, const KnownTiles& tiles, std::int64_t partitions) {
  std::vector<Seen> seen;
  for (int i = 0; i < at.operand_count(); ++i) {
    const KnownTiles::Tile* const known = tiles.find(at.operand(i));
    if (known == nullptr || is_sharding_mark(at)) continue;
    if (auto rule = rule_of(at, i, known->sharding)) {
      seen.push_back({i, known->sharding, std::move(*rule)});
    }
  }
  std::vector<Way> ways;
  for (const Seen& one : seen) {
    Way way = takes_cuts_together(at) && seen.size() > 1 ? together(at, one, seen, partitions)
                                                         : Way{one.rule, one.sharding, 0};
    const auto bytes = cost_bytes(at, way, tiles, partitions);
    if (!bytes) continue;
    // Many rows of a small table are looked up in all of it.
    if (at.opcode() == Opcode::gather && *bytes > whole_cost_bytes(at, tiles)) continue;
    way.cost_bytes = *bytes;
    ways.push_back(std::move(way));
  }
  std::stable_sort(ways.begin(), ways.end(),
                   [](const Way& a, const Way& b) { return a.cost_bytes < b.cost_bytes; });
  return ways;
}

}  // namespace plimsoll::passes
