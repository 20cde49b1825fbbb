// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "runtime/executor/resolved_plan.h"
#include "runtime/executor/stream_times.h"
#include "runtime/executor/transfers.h"

namespace plimsoll::executor {

// The windows on residuals (planner::SlicedState) of one execution of a loop: what is copied
// between them and the residuals' tier, and where the loop's rounds find them. Used by the run's
// thread.
class LoopWindows {
 public:
  struct Place {
    std::byte* window = nullptr;
    MemorySpace tier = MemorySpace::host;
    std::int64_t offset = 0;  // of the residual in the run's block
  };
  // `states` and `places` belong together and, like `transfers` and `times`, must outlive this.
  // `measured`, where not empty, receives the times of transfers, `times` those of waiting for
  // them.
  LoopWindows(std::span<const ResolvedSlicedState> states, std::vector<Place> places,
              Transfers& transfers, StreamTimes& times, std::span<MeasuredTime> measured)
      : states_(states),
        places_(std::move(places)),
        transfers_(transfers),
        times_(times),
        measured_(measured),
        under_way_(states.size()) {}

  // Puts the addresses of the round's residuals into `state`, once what it reads has arrived and
  // its slots are free, and starts to bring what the next round reads.
  Status begin_round(std::span<void*> state);
  // Starts to take away what the round has written.
  Status end_round();
  // Waits for what is still under way.
  Status finish();

 private:
  static constexpr std::size_t kSlots = planner::SlicedState::kSlots;
  Status start(std::size_t k, std::int64_t round);
  Status wait(std::size_t k, std::int64_t round);
  std::byte* slot(std::size_t k, std::int64_t round) const;

  const std::span<const ResolvedSlicedState> states_;
  const std::vector<Place> places_;
  Transfers& transfers_;
  StreamTimes& times_;
  const std::span<MeasuredTime> measured_;
  std::int64_t round_ = 0;
  // Per state and slot; its address names the transfer.
  std::vector<std::array<bool, kSlots>> under_way_;
};

}  // namespace plimsoll::executor
