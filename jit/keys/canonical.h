// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "jit/graph/graph.h"

namespace plimsoll::jit {

// A text that is equal for two graphs exactly when one kernel serves both: what the roots compute
// from numbered inputs, without names and dead code.
std::string canonical_text(const KernelGraph& graph);

// What the kernel does, e.g. "fusion.exponential.multiply.reduce"; movement is named only when
// there is nothing else.
std::string kernel_name(const KernelGraph& graph);

// `name` and the beginning of the canonical text's hash: what functions and files of a kernel are
// called, in every process and on every machine.
std::string kernel_id(const std::string& name, const std::string& canonical);

}  // namespace plimsoll::jit
