// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/base/status.h"
#include "runtime/planner/cost/cost_model.h"

namespace plimsoll::executor {

// How a program is made ready to run, whatever its plan.
struct ProgramOptions {
  ProgramOptions(bool optimize = true) : optimize(optimize) {}  // implicit: the one most choose

  bool optimize;                  // run passes::optimize; false: the module is run as written
  bool fused_attention = true;    // where it does (passes::OptimizeOptions)
  bool excess_precision = false;  // where it does, too
  // Small kernels that do not depend on each other run in one launch.
  bool joint_launches = true;
  // All participants run this very module. Otherwise each has its own, with the same collectives in
  // the same order, and what one knows of its own values says nothing of the others'.
  bool one_program = true;
  // Participants have plans of their own, and may run different forms: they meet at the same
  // collectives in all of them (passes::OptimizeOptions).
  bool plans_alone = false;
  // What messages between participants take, where that was measured; else the machine's.
  std::optional<planner::CollectiveSpeeds> collective_speeds;
  // How many of the participants run on this machine; none: all of them.
  std::optional<std::int64_t> participants_here;
  // Collectives go on while launches after them run that touch so many bytes; 0: none does. None:
  // what suits this machine (overlap_bytes_for).
  std::optional<std::int64_t> overlap_bytes;
  std::int64_t collective_bucket_bytes = std::int64_t{25} << 20;  // passes::kCollectiveBucketBytes
};

// What the environment says (PLIMSOLL_ATTENTION, PLIMSOLL_EXCESS_PRECISION, PLIMSOLL_LAUNCHES,
// PLIMSOLL_COLLECTIVE_BUCKET, PLIMSOLL_COLLECTIVE_OVERLAP).
Result<ProgramOptions> program_options_from_environment();

// What takes no longer than to hand a collective to another thread: 512 KiB where each participant
// of this machine has a processor at least, and 8 MiB where they share processors, as then the
// thread has to wait for one, or takes it from a kernel.
std::int64_t overlap_bytes_for(std::int64_t participants_here, std::int64_t processors);

// Does PLIMSOLL_CALIBRATION let programs be planned by this machine's measured speeds?
Result<bool> calibrate_from_environment();

}  // namespace plimsoll::executor
