// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "jit/emit/kernel_code.h"
#include "jit/graph/graph.h"
#include "runtime/base/status.h"

namespace plimsoll::jit {

// Of the fusion of a FlatForm (flat_form.h): adds one phase without units of its own: its function
// takes elements [begin, end) of any extent.
Status write_flat_kernel(const KernelGraph& graph, const KernelTarget& target, KernelCode& code);

}  // namespace plimsoll::jit
