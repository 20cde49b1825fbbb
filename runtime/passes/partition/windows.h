// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/status.h"
#include "runtime/ir/module.h"
#include "runtime/passes/partition/tiles.h"

namespace plimsoll::passes {

// What moves elements along a dimension that is cut, or reads windows of it, so that a partition
// needs some of what its neighbours have: slices, paddings, concatenations, convolutions,
// reduce-windows. They are sent the edges of each other's tiles. A slice that lies in one tile is
// sent to all by those who have it. Appends the whole array, known by tiles where it is made of
// some; null where it is nothing of that, or where more than one neighbour would have to be asked.
Result<ir::Instruction*> computed_on_windows(ir::Instruction& at, KnownTiles& tiles);

}  // namespace plimsoll::passes
