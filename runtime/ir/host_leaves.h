// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "runtime/ir/module.h"

namespace plimsoll::ir {

// What a program wants in host memory between its runs, by leaf of the entry's parameters and of
// its result: `host_parameters={0,2}` and `host_results={1}` in the module's header. Numbers that
// there are no leaves of mean nothing.
std::vector<bool> host_parameters(const Module& module);
std::vector<bool> host_results(const Module& module);

// Writes them down; none: nothing.
void set_host_leaves(Module& module, const std::vector<bool>& parameters,
                     const std::vector<bool>& results);

}  // namespace plimsoll::ir
