// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/executor/executable.h"
#include "runtime/ir/literal.h"

namespace plimsoll::executor {

// Runs an executable on host values for every participant of its module (ir/participants.h) at
// once, each in a thread of its own with a budget of its own: run_on_host for each, with local
// communicators. `options` are for all; its communicator is not looked at. Where some fail, the
// error is that of the first to do so, with the participant's number, and the others have ended,
// too. INVALID_ARGUMENT for another number of participants.
Result<std::vector<ir::Literal>> run_together(
    const Executable& executable, std::span<const std::shared_ptr<memory::Budget>> budgets,
    std::span<const std::vector<ir::Literal>> arguments, const RunOptions& options = {});

}  // namespace plimsoll::executor
