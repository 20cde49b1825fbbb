// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "runtime/ir/module.h"

namespace plimsoll::jit {

// Bytes that are equal only for instructions that one kernel serves: opcodes, shapes, attributes
// and edges as they are written down, names left out. Much cheaper than the canonical text, and
// finer: instructions that differ in what doesn't matter (dead code, order) have different keys.
// Nothing for instructions with large tables. Valid until this thread's next call.
std::optional<std::string_view> structural_key(const ir::Instruction& instruction);

}  // namespace plimsoll::jit
