// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"

namespace plimsoll::ir {

// Evaluates the entry computation on `arguments` (one literal per parameter), one instruction at a
// time, by the plainest loops: the reference that everything else is compared with. Slow. Custom
// calls, collectives over more than one participant, complex and narrow dtypes are UNIMPLEMENTED;
// elided constants are FAILED_PRECONDITION. Thread-safe for distinct calls.
Result<Literal> interpret(const Module& module, std::span<const Literal> arguments);

// Evaluates one instruction on operand values.
Result<Literal> interpret(const Instruction& instruction, std::span<const Literal> operands);

}  // namespace plimsoll::ir
