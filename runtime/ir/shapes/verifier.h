// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/status.h"
#include "runtime/ir/module.h"

namespace plimsoll::ir {

// Checks operand counts, shapes against shape inference, attributes' ranges, called computations'
// signatures, parameter numbering, schedule order, acyclic calls, channels and aliases. The first
// violation found is an INVALID_ARGUMENT naming the computation and instruction.
Status verify(const Module& module);

}  // namespace plimsoll::ir
