// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "jit/jit.h"
#include "runtime/base/status.h"
#include "runtime/memory/tiers.h"
#include "runtime/planner/cost/cost_model.h"

namespace plimsoll::executor {

// Measures the speeds of this machine with the kernels that programs use. About 0.2 s.
// (machine_speeds.cc)
Result<planner::Roofline> measure_machine(jit::Compiler& compiler);

// What a calibration holds for: the CPU's name and the number of threads.
std::string machine_name();

// The calibration kept in `folder`, else a new one, which is kept there where that is possible
// (empty: nowhere). A damaged file is measured again.
Result<planner::Roofline> load_or_measure(const std::string& folder, jit::Compiler& compiler);

// The speeds that programs are planned by: this machine's, measured or read at the first call of
// the process, or the built-in table where measuring fails. Thread-safe.
planner::Roofline machine_speeds(jit::Compiler& compiler);

// The host tier's link goes at this speed, and is not measured again; other tiers, which a
// calibration says nothing of, are taken to be as fast as the table has it when `machine` is the
// table.
void set_link_speeds(const memory::Tiers& tiers, const planner::Roofline& machine);

}  // namespace plimsoll::executor
