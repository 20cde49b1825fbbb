// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ir/module.h"

namespace plimsoll::jit {

// True when the elements of a reduction by `computation` must be taken one by one in order: it is
// no plain sum, product, extremum or bit operation, and not found to be associative and commutative
// on samples either.
bool must_run_in_order(const ir::Computation& computation);

}  // namespace plimsoll::jit
