// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/status.h"
#include "runtime/ir/module.h"
#include "runtime/ir/sharding.h"

namespace plimsoll::passes {

// Appends what takes this partition's tile of an array that it has whole: nothing where the
// sharding has no tiles.
Result<ir::Instruction*> add_tile(ir::Instruction* whole, const ir::Sharding& sharding);

// Appends what gathers an array of `shape` from all partitions' tiles of it: an all-gather along
// each dimension that is cut, among those that differ in their place along that dimension alone.
Result<ir::Instruction*> add_whole(ir::Instruction* tile, const ir::Shape& shape,
                                   const ir::Sharding& sharding);

// A number for a channel that no instruction of the module has.
std::int64_t unused_channel(const ir::Module& module);

}  // namespace plimsoll::passes
