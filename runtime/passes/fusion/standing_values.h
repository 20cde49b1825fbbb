// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <unordered_set>

#include "runtime/ir/module.h"

namespace plimsoll::passes {

// Values of a computation whose bytes are there whenever its kernels run, whoever reads them: what
// the caller holds (parameters, what a loop hands on unchanged), and what it will hold (results).
// Parameters that lie in host memory count, too: which do is not known before a limit is.
using StandingValues = std::unordered_set<const ir::Instruction*>;
StandingValues standing_values(const ir::Computation& computation);

// Of the distinct values that a kernel of these members would read, without those standing and
// without constants. A view counts as what it shows.
std::int64_t bytes_read(std::span<ir::Instruction* const> members, const StandingValues& standing);

}  // namespace plimsoll::passes
