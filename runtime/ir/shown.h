// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ir/module.h"

namespace plimsoll::ir {

// True for instructions without bytes of their own: their result leaves are leaves of their
// operands (or tokens).
bool is_view(const Instruction& instruction);

// The array whose elements, in their order, the reshapes and bitcasts that end in `view` show;
// `view` itself where it is no such thing. A bitcast to or from another layout than row-major order
// moves elements (as a transpose does), and one to another dtype makes others: those show
// themselves.
const Instruction* shown_by(const Instruction* view);

}  // namespace plimsoll::ir
