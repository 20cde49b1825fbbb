// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unordered_map>

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

  struct Tile {
    ir::Sharding sharding;
    ir::Instruction* at = nullptr;
  };
  // Null where the array is known by no tiles. What only says a sharding is looked through.
  const Tile* find(const ir::Instruction* whole) const;
  // The same by summands of tiles, as the program asks for.
  const Tile* find_summands(const ir::Instruction* whole) const;
  // The partition's tile of an array: what is known, or what is taken from the whole.
  Result<ir::Instruction*> tile_of(ir::Instruction* whole, const ir::Sharding& sharding) const;
  // Appends the whole array of `shape` that is gathered from `tile`, and knows it by that; the tile
  // itself where there is nothing to gather. Of summands it is the tiles of their sum that it is
  // gathered from, and it is known by both.
  Result<ir::Instruction*> add_whole_of(ir::Instruction* tile, const ir::Shape& shape,
                                        const ir::Sharding& sharding);
  // The tiles of `whole` are the sums of these, which nobody has asked for so far.
  void offer_summand(const ir::Instruction* whole, ir::Sharding sharding,
                     ir::Instruction* summand) {
    offered_[whole] = {std::move(sharding), summand};
  }
  // A channel_id for a collective that is added.
  std::int64_t take_channel() { return channel_++; }

 private:
  std::int64_t channel_;  // nobody has this one or those above it
  std::unordered_map<const ir::Instruction*, Tile> tiles_, summands_, offered_;
};

// Whether the custom call only says how its operand is held.
bool is_sharding_mark(const ir::Instruction& instruction);

}  // namespace plimsoll::passes
