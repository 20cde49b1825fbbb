// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"
#include "runtime/ir/sharding.h"
#include "runtime/passes/partition/tiles.h"

namespace plimsoll::passes {

// A loop whose state is held by tiles where its body makes tiles: appends one with a copy of the
// body (and of the condition) that is computed on tiles, and a tuple of the whole arrays that come
// out, which are known by those. What of the state is held so is found by trying: what comes in by
// tiles, and what the body makes as tiles; but what the body gathers and does not make as tiles
// again is gathered once, before the loop, as is what it gathers in every round of what never
// changes. What comes out whole and is `wanted` by tiles, element by element, is held by those,
// unless the body gathers it. Null where no tiles come in and none are asked for.
Result<ir::Instruction*> computed_in_loop(ir::Instruction& loop, KnownTiles& tiles,
                                          const std::vector<std::optional<ir::Sharding>>& wanted);

// A conditional whose branches take and make tiles, in the same way.
Result<ir::Instruction*> computed_in_branches(ir::Instruction& conditional, KnownTiles& tiles);

}  // namespace plimsoll::passes
