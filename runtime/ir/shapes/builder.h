// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <optional>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"

namespace plimsoll::ir {

// Appends an instruction whose shape is inferred (`given` is needed for opcodes of rule `given`).
Result<Instruction*> build(Computation& computation, Opcode opcode,
                           std::vector<Instruction*> operands, Attributes attributes = {},
                           std::vector<Computation*> called = {}, const Shape* given = nullptr,
                           std::string_view name = {});

// A computation `(x, y) -> opcode(x, y)` on scalars of `dtype` in `module`, shared when it exists.
Computation* scalar_computation(Module& module, Opcode opcode, DType dtype);

// True when `computation` is `opcode(p0, p1)` on scalars (either operand order); used to recognise
// sums, maxima and so on.
bool is_binary_computation(const Computation& computation, Opcode opcode);

// The operation that such a computation is, where it is one that neither order nor grouping changes
// but by rounding: add, multiply, maximum, minimum, and, or, xor. Nothing of any other.
std::optional<Opcode> plain_operation(const Computation& computation);

}  // namespace plimsoll::ir
