// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ir/codec/codec.h"
#include "runtime/ir/module.h"
#include "runtime/planner/plan.h"

// What check_plan holds against encode and decode steps; only check*.cc include this.
namespace plimsoll::planner {

// True when every bit of every value of these two shapes is decided by the outcome that `codec` (a
// compare_mask) keeps of operand leaf `leaf` of `reader`, whatever the other operands are:
// everything that `reader` does with it is moving it about and comparing it with the constant, in
// the direction of the codec.
bool reads_only_outcome(const ir::Instruction& reader, int leaf, const Codec& codec);

}  // namespace plimsoll::planner
