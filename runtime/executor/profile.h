// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "runtime/device/kernel.h"
#include "runtime/ir/codec/codec.h"
#include "runtime/ir/module.h"
#include "runtime/planner/plan.h"

namespace plimsoll::executor {

// Time and bytes of one kernel name over the runs since the profile was last cleared.
struct ProfileEntry {
  std::string name;  // kernel name, or what the executor does itself: "copy", "swap-out.host", ...
  device::KernelOrigin origin = device::KernelOrigin::own;
  std::int64_t launches = 0, recomputes = 0;
  double seconds = 0;            // on the run's own stream; of transfers, what it waited for them
  double recompute_seconds = 0;  // of these, when computed again
  double transfer_seconds = 0;   // of transfers that are not synchronous, on their engine meanwhile
  double bytes = 0;              // read and written, by shapes
};

// The same for one thing that steps do, so that a cost model can learn from it.
struct Measurement : ProfileEntry {
  planner::StepKind kind = planner::StepKind::compute;  // recompute counts as compute
  const ir::Instruction* instruction = nullptr;         // what is computed, or whose value is moved
  int leaf = 0;                                         // of it, where a value is moved
  ir::Codec codec;                                      // encode, decode
  MemorySpace tier = MemorySpace::device;               // of transfers, the other end
  bool synchronous = false;                             // transfers: made by the run's own threads
  bool codes = false;  // a kernel that decodes or encodes, too: no measure of the instruction's own
};

// How many kernels a run launches, and in how many launches: steps of callees once, however often
// they run.
struct LaunchCounts {
  std::int64_t kernels = 0, launches = 0;
  std::int64_t beside = 0;  // of them collectives that go on while others run
};

}  // namespace plimsoll::executor
