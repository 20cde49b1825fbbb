// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"
#include "runtime/ir/sharding.h"

namespace plimsoll::passes {

// What Shardy writes into the frontend attributes of a custom call that enters or leaves a manual
// region: `#sdy.sharding_per_value<[<@mesh, [{"a"}, {}]>, ...]>` under `xla.sdy.in_shardings` (or
// `out_shardings`), of which only the axes in `xla.sdy.manual_axes` count; meshes are in those of
// the module. One sharding per value. INVALID_ARGUMENT for what can't be read.
Result<std::vector<ir::Sharding>> read_mesh_shardings(const ir::Instruction& call,
                                                      std::string_view attribute);

}  // namespace plimsoll::passes
