// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "jit/gpu/gpu_entry.h"

namespace plimsoll::jit {

// Adds a launch per nest that computes root elements from their index (jit/loops/placed_roots.h).
// Precondition: no reduce in the graph.
Status write_gpu_loops(GpuWriter& writer);

}  // namespace plimsoll::jit
