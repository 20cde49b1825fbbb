// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/status.h"
#include "runtime/ir/module.h"

namespace plimsoll::passes {

// Elementwise operations, broadcasts, transposes, reductions and dots work on arrays without dims
// of size one, with reshapes around them, most of which `simplify` then removes: what is the same
// but for such dims looks the same. Dots keep a free dim a side and one to sum over. A sum over
// dims of size one alone is its operand (so that -0 stays -0).
Result<bool> drop_unit_dims(ir::Module& module);

}  // namespace plimsoll::passes
