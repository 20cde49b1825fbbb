// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/kernel_provider.h"
#include "runtime/ir/literal.h"
#include "runtime/ir/module.h"
#include "runtime/planner/planner.h"

namespace plimsoll::testing {

struct LimitCheck {
  int limits = 0;             // runs under a limit
  int recomputing_plans = 0;  // of which recomputed something
  int encoding_plans = 0, swapping_plans = 0;
  std::int64_t encoding_kernels = 0, decoding_kernels = 0;  // results and inputs coded inside
  int joint_launches = 0;                                   // of several kernels, of all plans
  int beside = 0;             // collectives that go on while others run, of all plans
  int streaming_plans = 0;    // with constants that come when they are needed
  int synchronous_plans = 0;  // with such copies
  int slicing_plans = 0;      // with residuals of loops on other tiers, slice by slice
  std::int64_t floor_bytes = 0, peak_bytes = 0;
};

// What may be done with values besides keeping them, and where else they may go.
struct LimitOptions {
  bool optimize = true;           // run the passes, or the module as written
  bool excess_precision = false;  // among the passes
  planner::Remedies remedies;
  std::int64_t host_bytes = 0, disk_bytes = 0;
  bool synchronous = false;  // small copies to and from the host by the kernels' threads
};

// Runs `module` (optimized or as written) without a limit, at its floor, at `limits` further limits
// between floor and peak (drawn from `seed`) and just below the floor. Returns what broke, or an
// empty string: every result has the bits of the unlimited run, every measured peak is at or under
// its limit and is the plan's, on the other tiers too, every plan passes check_plan, predicted time
// never rises with the limit, one byte below the floor is refused with the floor's number, and
// kernels one by one, in the plan's order, give the same bits as in joint launches, which cross
// nothing that they conflict with (launch_check.h); of most seeds the same holds for the least
// floor over all forms of the program, which is no more than the floor of the module as written.
std::string check_limits(const ir::Module& module, std::span<const ir::Literal> arguments,
                         device::KernelProvider& provider, std::uint64_t seed, int limits,
                         const LimitOptions& options = {}, LimitCheck* report = nullptr);
// The same of a module with several participants, with the arguments of each; every one of them
// keeps within the limit.
std::string check_limits_together(const ir::Module& module,
                                  std::span<const std::vector<ir::Literal>> arguments,
                                  device::KernelProvider& provider, std::uint64_t seed, int limits,
                                  const LimitOptions& options = {}, LimitCheck* report = nullptr);

// The result of `module` with its passes on or off, unlimited. The error's text in `error` on
// failure.
ir::Literal run_unlimited(const ir::Module& module, std::span<const ir::Literal> arguments,
                          device::KernelProvider& provider, bool optimize, std::string& error);
// Of every participant.
std::vector<ir::Literal> run_unlimited_together(const ir::Module& module,
                                                std::span<const std::vector<ir::Literal>> arguments,
                                                device::KernelProvider& provider, bool optimize,
                                                std::string& error);

}  // namespace plimsoll::testing
