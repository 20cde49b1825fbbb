// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/status.h"
#include "runtime/ir/module.h"

namespace plimsoll::ir {

// FAILED_PRECONDITION that names a constant whose values were left out of the program's text, and
// how to print them.
Status elided_constant(const Instruction& constant);

}  // namespace plimsoll::ir
