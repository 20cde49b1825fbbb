// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ir/module.h"

namespace plimsoll::passes {

// An array whose elements are all `value`, at the end of the computation.
ir::Instruction* add_number(ir::Computation& to, const ir::Shape& shape, double value);

}  // namespace plimsoll::passes
