// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/status.h"
#include "runtime/ir/module.h"
#include "runtime/passes/partition/tiles.h"

namespace plimsoll::passes {

// A loop whose state is held by tiles where its body makes tiles: appends one with a copy of the
// body (and of the condition) that is computed on tiles, and a tuple of the whole arrays that come
// out, which are known by those. What of the state is held so is found by trying: what comes in by
// tiles, and what the body makes as tiles; but what the body gathers and does not make as tiles
// again is gathered once, before the loop, as is what it gathers in every round of what never
// changes. Null where no tiles come in and none are asked for inside.
Result<ir::Instruction*> computed_in_loop(ir::Instruction& loop, KnownTiles& tiles);

// A conditional whose branches take and make tiles, in the same way.
Result<ir::Instruction*> computed_in_branches(ir::Instruction& conditional, KnownTiles& tiles);

}  // namespace plimsoll::passes
