// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/ExecutionEngine/Orc/LLJIT.h>

#include "runtime/base/status.h"

namespace plimsoll::jit {

// Tells debuggers that follow GDB's JIT interface of every object `jit` links.
Status register_with_debuggers(llvm::orc::LLJIT& jit);

// Writes where every function is that `jit` links to /tmp/perf-PID.map, which `perf report` reads.
// A file of that name that is not this user's own is left alone: UNAVAILABLE.
Status write_perf_map(llvm::orc::LLJIT& jit);

}  // namespace plimsoll::jit
