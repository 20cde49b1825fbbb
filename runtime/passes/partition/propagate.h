// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <unordered_map>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"
#include "runtime/ir/sharding.h"
#include "runtime/passes/partition/tiles.h"
#include "runtime/passes/partition/wanted_tiles.h"

namespace plimsoll::passes {

// Computes on tiles what can be: an instruction of which an operand is known by tiles, and whose
// dimensions go along with that operand's, becomes one on the partition's tiles, and its result is
// known by tiles again. Where it adds up (or reduces otherwise) over a dimension that is cut, an
// all-reduce among those that differ in their place along it follows. What other operands lack is
// taken from the whole arrays, or sent by others. What is wanted by tiles alone (wanted_tiles) is
// made by tiles. `made`: receives, by name, how what is made as tiles is held; or null.
// Precondition: the computation is in a valid order.
Status propagate_tiles(ir::Computation& computation, KnownTiles& tiles, const Expected& expected,
                       std::unordered_map<std::string, ir::Sharding>* made = nullptr);

}  // namespace plimsoll::passes
