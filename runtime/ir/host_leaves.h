// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"

namespace plimsoll::ir {

// What a program wants in host memory between its runs, by leaf of the entry's parameters and of
// its result: `host_parameters={0,2}` and `host_results={1}` in the module's header.
std::vector<bool> host_parameters(const Module& module);
std::vector<bool> host_results(const Module& module);

// INVALID_ARGUMENT, with the attribute, for anything but a list of numbers of leaves, each once.
Status check_host_leaves(const Module& module);

// Writes them down; none: nothing.
void set_host_leaves(Module& module, const std::vector<bool>& parameters,
                     const std::vector<bool>& results);

}  // namespace plimsoll::ir
