// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/device/kernel_provider.h"
#include "runtime/ir/module.h"

namespace plimsoll::testing {

struct RandomProgramTotals {
  std::int64_t instructions = 0, limits = 0, recomputing_plans = 0;
  std::int64_t encoding_plans = 0, encoding_kernels = 0, decoding_kernels = 0, swapping_plans = 0,
               synchronous_plans = 0, slicing_plans = 0, streaming_plans = 0;
  std::int64_t joint_launches = 0;
  std::int64_t beside = 0;
  double floor_share = 0;  // sum over programs of floor / unlimited peak
};

// What a seed's program is: `attention`, `scan` (training steps by loops), `skips` (chains whose
// values are read again far behind), `participants`, `rare` (operations and forms that few programs
// have), `step` (plain training steps) or `mixed`.
std::string_view kind_of_program(std::uint64_t seed);

// The program of a seed. Null where its text is not valid, which is an error of who makes it.
std::unique_ptr<ir::Module> random_program(std::uint64_t seed);

// The random program of `seed`: optimized against the interpreter (reference.h), then check_limits
// at `limits` limits besides floor and peak, with remedies and tiers that change from seed to seed.
// Empty when all holds, else what broke.
std::string check_random_program(std::uint64_t seed, device::KernelProvider& provider, int limits,
                                 RandomProgramTotals& totals);

}  // namespace plimsoll::testing
