// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/executor/resolved_plan.h"

namespace plimsoll::executor {

// One run: pointers, the profile's clock, and the walk over the steps.
class Run {
 public:
  // The time of one instruction's launches, Resolution::timed's.
  struct Timing {
    double seconds = 0;
    std::int64_t launches = 0;
  };

  // `timed`: how many instructions are timed; 0: none.
  Run(device::Stream& stream, const std::byte* constants, bool profiling, std::size_t entries,
      std::size_t timed = 0)
      : stream_(stream),
        constants_(constants),
        profile_(profiling ? entries : 0),
        timings_(timed) {}

  Status run_plan(const ResolvedPlan& plan, std::byte* arena, std::span<void* const> parameters,
                  std::span<void* const> outputs, std::vector<void*>* addresses_out = nullptr);

  // Per profile entry; names and origins are left empty. Empty without profiling.
  const std::vector<ProfileEntry>& profile() const { return profile_; }
  const std::vector<Timing>& timings() const { return timings_; }

 private:
  Status run_step(const ResolvedPlan& plan, const ResolvedStep& step,
                  const std::vector<void*>& addresses);
  Status run_while(const ResolvedPlan& plan, const ResolvedStep& step,
                   std::span<void* const> inputs, std::span<void* const> outputs,
                   std::byte* workspace);
  Status run_conditional(const ResolvedPlan& plan, const ResolvedStep& step,
                         std::span<void* const> inputs, std::span<void* const> outputs,
                         std::byte* workspace);
  Status copy(void* to, const void* from, std::int64_t bytes) {
    return stream_.copy(to, from, bytes, device::CopyKind::device_to_device);
  }

  device::Stream& stream_;
  const std::byte* constants_;
  std::vector<ProfileEntry> profile_;
  std::vector<Timing> timings_;
};

}  // namespace plimsoll::executor
