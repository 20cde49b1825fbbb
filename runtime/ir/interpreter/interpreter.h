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
// calls, collectives over more than one participant (interpret_together), complex and narrow dtypes
// are UNIMPLEMENTED; elided constants are FAILED_PRECONDITION. Thread-safe for distinct calls.
Result<Literal> interpret(const Module& module, std::span<const Literal> arguments);

// The same for every participant of the module (participants.h) at once, in a thread each, of its
// own arguments. The error is that of the first participant that has one.
Result<std::vector<Literal>> interpret_together(const Module& module,
                                                std::span<const std::vector<Literal>> arguments);

// Evaluates one instruction on operand values.
Result<Literal> interpret(const Instruction& instruction, std::span<const Literal> operands);

}  // namespace plimsoll::ir
