// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "runtime/ir/module.h"

namespace plimsoll::graphs {

// One training step of `layers` recurrent layers (h' = tanh(h w + x)) on f32, each a scan over the
// outputs of the one before: a loop forward, which stacks its states, and one backward, which reads
// them. Every loop has a body of its own, as compilers that lower scans write them.
std::unique_ptr<ir::Module> scan_step(int layers);

}  // namespace plimsoll::graphs
