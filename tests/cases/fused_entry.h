// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "runtime/ir/module.h"

namespace plimsoll::cases {

// The entry as one fusion in the entry of a module of its own; null when a parameter is a tuple.
std::unique_ptr<ir::Module> fused_entry(const ir::Module& module);

}  // namespace plimsoll::cases
