// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "jit/emit/kernel_code.h"
#include "jit/graph/graph.h"
#include "runtime/base/status.h"

namespace plimsoll::jit {

// Kernels of one form have one text: that of a flat kernel says nothing of the extent.
enum class KernelForm : std::uint8_t { plain, flat };

// A loop, reduction, row or flat kernel, by `form` and what is in `graph`. `id` names the module,
// and begins the names of its functions.
Result<KernelCode> write_kernel(const KernelGraph& graph, KernelForm form, const std::string& id,
                                const KernelTarget& target);

// Adds the phases of another kernel to `code`, with functions whose names begin with `id`.
Status add_kernel(const KernelGraph& graph, KernelForm form, const std::string& id,
                  const KernelTarget& target, KernelCode& code);

}  // namespace plimsoll::jit
