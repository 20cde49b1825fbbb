// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/ir/module.h"

namespace plimsoll::planner {

// Equal for instructions that do the same work on arrays of the same shapes and so, in all
// likelihood, take the same time: opcode, shapes with their layouts, attributes, and the same of
// what they call, instruction by instruction, a thousand at most. Names, values of constants and
// edges inside of fusions are left out. For look-ups in memory.
std::uint64_t work_signature(const ir::Instruction& instruction);

}  // namespace plimsoll::planner
