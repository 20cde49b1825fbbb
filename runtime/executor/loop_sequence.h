// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/kernel_provider.h"

namespace plimsoll::executor {

struct ResolvedPlan;

// Where something lies in a run of a loop, whatever the round: `offset` bytes from where its root
// begins.
struct LoopPlace {
  enum class Root : std::uint8_t {
    none,       // nowhere
    state,      // the loop's result `index`
    arena,      // the loop's workspace
    constants,  // the run's block of constants
    literal,    // `host`
    predicate,  // number `index` of the run's
  };
  Root root = Root::none;
  std::int32_t index = 0;
  std::int64_t offset = 0;
  const std::byte* host = nullptr;

  auto operator<=>(const LoopPlace&) const = default;
};

// A loop as one launch: all that its rounds do, loops, calls and branches inside of it included, as
// everything is at the same place in every round.
struct LoopSequence {
  std::shared_ptr<const device::LaunchSequence> launch;
  std::vector<LoopPlace> places;  // of the launch's addresses
  std::int32_t predicates = 0;
};

// Gives each `while` of `plans`, the entry's first, its sequence, where everything is in place: not
// where places change from round to round (scan residuals that come and go), where something waits
// for a transfer or for other participants, where there are very many steps, or where the device
// has no such launches. Plans and their kernels must outlive the sequences.
Status make_loop_sequences(std::span<const std::unique_ptr<ResolvedPlan>> plans,
                           device::KernelProvider& provider);

}  // namespace plimsoll::executor
