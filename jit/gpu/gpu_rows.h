// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "jit/gpu/gpu_entry.h"

namespace plimsoll::jit {

// Adds the one launch of a row fusion (jit/graph/row_plan.h), with the bits of the CPU's kernel.
// Precondition: the graph is one.
Status write_gpu_rows(GpuWriter& writer);

}  // namespace plimsoll::jit
