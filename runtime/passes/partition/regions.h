// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/status.h"
#include "runtime/ir/module.h"
#include "runtime/passes/partition/tiles.h"

namespace plimsoll::passes {

// Whether arrays enter a manual region here, in which each partition has its own, or leave it:
// custom calls of JAX's.
bool is_region_border(const ir::Instruction& instruction);
bool enters_region(const ir::Instruction& border);

// Appends what the border makes: of what enters this partition's tiles, which are what is known,
// and of what leaves whole arrays, which are known by their tiles from then on. INVALID_ARGUMENT
// where shapes do not follow from shardings.
Result<ir::Instruction*> cross_region_border(ir::Instruction& border, KnownTiles& tiles);

}  // namespace plimsoll::passes
