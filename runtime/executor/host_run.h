// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/executor/executable.h"
#include "runtime/ir/literal.h"

namespace plimsoll::executor {

// Runs an executable on host values: one literal per parameter (tuples allowed), result as one
// literal of the entry's shape. Parameters and outputs are allocated from `budget` for the
// duration, so its high-water mark is the plan's peak. Arguments whose residency is `host` are read
// in place, and results in host memory are written there. INVALID_ARGUMENT when an argument's shape
// is not the parameter's. Thread-safe. What `options` lets in must have room for the plan's peak.
Result<ir::Literal> run_on_host(const Executable& executable, memory::Budget& budget,
                                std::span<const ir::Literal> arguments,
                                const RunOptions& options = {});

// The same with leaves as raw bytes: `arguments[i]` has the bytes of parameter leaf i, `results[i]`
// receives those of result leaf i. The caller has checked the sizes.
Status run_on_host(const Executable& executable, memory::Budget& budget,
                   std::span<const void* const> arguments, std::span<void* const> results,
                   const RunOptions& options = {});

}  // namespace plimsoll::executor
