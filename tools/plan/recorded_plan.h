// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tools/command.h"
#include "tools/plan/planned_program.h"
#include "tools/program_file.h"

namespace plimsoll::tools {

struct RecordedPlanFlags {
  std::string schedule;     // file that gets the actions
  bool addresses = false;   // the limit counts addresses, and the actions say them
  bool keep_order = false;  // first executions stay as recorded; with a link they do anyway
};
void add_recorded_plan_flags(CLI::App* command, RecordedPlanFlags& flags);

// The call's fault: a flag that means nothing for what FILE holds.
Outcome not_for(const std::string& what, const std::string& flag);

// Plans the recorded step in `input`, with swaps where a --link-speed is given (the host then holds
// --host-limit bytes, or any number). A share of the unlimited peak is one of the peak that the
// file states. Flags for programs alone are refused.
Outcome plan_recorded(const InputFile& input, const PlanFlags& plan_flags,
                      const RecordedPlanFlags& flags, Output& output);

}  // namespace plimsoll::tools
