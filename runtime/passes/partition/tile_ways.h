// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/ir/module.h"
#include "runtime/ir/sharding.h"
#include "runtime/passes/partition/tile_rules.h"
#include "runtime/passes/partition/tiles.h"

namespace plimsoll::passes {

// A way to compute an instruction on tiles: how the dimensions along which it works are cut, and
// which of them those of each array go along with.
struct Way {
  Rule rule;
  ir::Sharding seen;
  // What one partition receives, of operands that are held otherwise and of sums, and four times
  // what it then has of the result, which others compute on.
  std::int64_t cost_bytes = 0;
};

// The ways of an instruction, the cheapest first: by what is
// known of each operand, together with as much of the others' cuts as agrees with it. Of a product
// of rows that are cut along one axis of a mesh with columns that are cut along another, both.
std::vector<Way> ways_of(const ir::Instruction& at, const KnownTiles& tiles,
                         std::int64_t partitions);

// Whether the instruction adds up (or reduces otherwise) over the dimensions that its result lacks.
bool reduces(const ir::Instruction& at);

}  // namespace plimsoll::passes
