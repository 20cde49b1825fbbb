// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"
#include "runtime/ir/sharding.h"

namespace plimsoll::passes {

// Appends what takes this partition's tile of an array that it has whole: nothing where the
// sharding has no tiles. Of summands the first holder's is the tile, the others' are zeros. Zeros
// are what lies beyond the array.
Result<ir::Instruction*> add_tile(ir::Instruction* whole, const ir::Sharding& sharding);

// Appends the tile of an array of `size` elements along `dimension`, with `value` (a scalar) in
// place of what lies beyond the array along it; the tile itself where there is nothing.
ir::Instruction* add_masked(ir::Instruction* tile, int dimension, std::int64_t size,
                            const ir::Sharding& sharding, ir::Instruction* value);

// Appends what gathers an array of `shape` from all partitions' tiles of it: an all-gather along
// each dimension that is cut, among those that differ in their place along that dimension alone,
// without what lies beyond the array. Precondition: the tiles are no summands (add_sum).
// `channel` is a channel_id that nobody has, and then the next one.
Result<ir::Instruction*> add_whole(ir::Instruction* tile, const ir::Shape& shape,
                                   const ir::Sharding& sharding, std::int64_t& channel);

// Appends the tile that is the sum of all holders' summands of it: an all-reduce among those.
ir::Instruction* add_sum(ir::Instruction* summand, const ir::Sharding& sharding,
                         std::int64_t& channel);

// Whether every partition has the same tile by both, whoever else has it, and summands of it in the
// same groups, or none.
bool are_same_tiles(const ir::Sharding& a, const ir::Sharding& b, std::int64_t partitions);

// The tiles that are known of arrays that a program has whole.
class KnownTiles {
 public:
  explicit KnownTiles(const ir::Module& module);
  // Of another computation of the module, of which nothing is known yet.
  KnownTiles of_another() const { return KnownTiles(channel_); }

  struct Tile {
    ir::Sharding sharding;
    ir::Instruction* at = nullptr;
  };
  // Null where the array is known by no tiles. What only says a sharding is looked through.
  const Tile* find(const ir::Instruction* whole) const;
  // The same by summands of tiles, as the program asks for.
  const Tile* find_summands(const ir::Instruction* whole) const;
  // The same by summands that nobody has asked for so far.
  const Tile* find_offered(const ir::Instruction* whole) const;
  // The partition's tile of an array: what is known, what is made of the tile that is known, or
  // what is taken from the whole.
  Result<ir::Instruction*> tile_of(ir::Instruction* whole, const ir::Sharding& sharding);
  // What one partition receives for that.
  std::int64_t received_bytes(const ir::Instruction* whole, const ir::Sharding& sharding) const;
  // The tiles of `whole` that were made of the one that is known.
  std::span<const Tile> others(const ir::Instruction* whole) const;
  // Appends the whole array of `shape` that is gathered from `tile`, and knows it by that; the tile
  // itself where there is nothing to gather. Of summands it is the tiles of their sum that it is
  // gathered from, and it is known by both.
  Result<ir::Instruction*> add_whole_of(ir::Instruction* tile, const ir::Shape& shape,
                                        const ir::Sharding& sharding);
  // The same of a tuple of arrays, or of one that is none.
  Result<ir::Instruction*> add_wholes_of(ir::Instruction* tiles, const ir::Shape& whole,
                                         const std::vector<ir::Sharding>& held);
  // The tiles of `whole` are the sums of these, which nobody has asked for so far.
  void offer_summand(const ir::Instruction* whole, ir::Sharding sharding,
                     ir::Instruction* summand) {
    offered_[whole] = {std::move(sharding), summand};
  }
  // The tile is one of an array that is spread, by a broadcast of the same tiles of what it
  // spreads.
  void say_spread(const ir::Instruction* tile) { spread_.insert(tile); }
  // A channel_id for a collective that is added.
  std::int64_t take_channel() { return (*channel_)++; }

 private:
  Result<ir::Instruction*> retiled(const Tile& known, const ir::Shape& whole,
                                   const ir::Sharding& sharding);

  explicit KnownTiles(std::shared_ptr<std::int64_t> channel) : channel_(std::move(channel)) {}

  std::shared_ptr<std::int64_t> channel_;  // nobody has this one or those above it
  std::unordered_map<const ir::Instruction*, std::vector<Tile>> others_;
  std::unordered_map<const ir::Instruction*, Tile> tiles_, summands_, offered_;
  std::unordered_set<const ir::Instruction*> spread_;
};

// Of an array itself, or of what a tuple has: shapes; and values, which are appended where `value`
// is no `tuple`.
std::vector<ir::Shape> shapes_of(const ir::Shape& shape);
std::vector<ir::Instruction*> arrays_of(ir::Instruction* value);

// Whether the custom call only says how its operand is held.
bool is_sharding_mark(const ir::Instruction& instruction);

}  // namespace plimsoll::passes
