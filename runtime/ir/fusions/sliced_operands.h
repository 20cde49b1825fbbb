// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ir/module.h"

// A product that reads slices where they lie, as one instruction: a fusion of kind kCustom whose
// computation is a dot of parameters and of [views of] slices and dynamic-slices of parameters.
// Layers whose parameters are parts of one array take them so, and copy none.
namespace plimsoll::ir {

// The slice or dynamic-slice that `operand` shows, where its bytes lie side by side in what it is
// taken of, and begin at a multiple of kSliceAlignment whatever its indices; null: it is no such.
const Instruction* contiguous_slice(const Instruction& operand);
inline constexpr std::int64_t kSliceAlignment = 64;

// True when the instruction is such a fusion.
bool has_sliced_operands(const Instruction& instruction);

}  // namespace plimsoll::ir
