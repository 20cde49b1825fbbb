// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"

namespace plimsoll::ir {

// Where an array is between the runs of programs: on the device, or in the host's memory, in pages
// that transfers of devices reach at full speed, or in any.
enum class ArrayMemory : std::uint8_t { device, pinned_host, unpinned_host };

// Where a program wants them, by leaf of the entry's parameters and of its result. In the module's
// header stand `host_parameters={0,2}` and `host_results={1}`, the numbers of those in host memory,
// and `unpinned_parameters={2}` and `unpinned_results={}`, which of them may be in any pages.
std::vector<ArrayMemory> parameter_memories(const Module& module);
std::vector<ArrayMemory> result_memories(const Module& module);

// INVALID_ARGUMENT, with the attribute, for anything but a list of numbers of leaves, each once,
// and for unpinned ones that are not in host memory.
Status check_host_leaves(const Module& module);

// Writes them down; none: nothing.
void set_host_leaves(Module& module, const std::vector<ArrayMemory>& parameters,
                     const std::vector<ArrayMemory>& results);

}  // namespace plimsoll::ir
