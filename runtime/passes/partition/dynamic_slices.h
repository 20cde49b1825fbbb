// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/status.h"
#include "runtime/ir/module.h"
#include "runtime/passes/partition/tiles.h"

namespace plimsoll::passes {

// Parts of an array that is cut, at a place that is not known before the run: a dynamic-slice is
// summed of what each partition has of it, and each writes its part of a dynamic-update-slice.
// Appends the whole array, known by tiles; null where it is neither, or where it moves along
// several dimensions that are cut, or where gathering the array costs less.
Result<ir::Instruction*> computed_on_dynamic_slices(ir::Instruction& at, KnownTiles& tiles);

}  // namespace plimsoll::passes
