// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ir/module.h"

namespace plimsoll::passes {

// Constant filters that are large beside the images (ir/shapes/large_filters.h) get the order in
// which a kernel reads them once, in long runs: window positions, input channels, output channels
// innermost. The constant is permuted here, once a program. Returns whether any was.
bool lay_out_filters(ir::Computation& computation);

}  // namespace plimsoll::passes
