// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "runtime/device/kernel_provider.h"

namespace plimsoll::device::cuda {

struct GpuRandomTotals {
  std::int64_t programs = 0, instructions = 0, limits = 0;
  std::int64_t exact = 0;  // programs without a sum of products: the CPU's bits
  std::int64_t recomputing_plans = 0, encoding_plans = 0, swapping_plans = 0;
  std::int64_t encoding_kernels = 0, decoding_kernels = 0;
};

// The random programs' size.
struct GpuRandomSize {
  int instructions = 40;
  std::int64_t largest_bytes = 8 << 10;  // of a value
};

// A random program of `seed` by kernels that are compiled for GPUs: unlimited against the CPU (the
// same bits, or close where the program has sums of products), then check_limits
// (tests/executor/limit_check.h) at `limits` limits besides floor and peak, with remedies and a
// tier. Empty when all holds, else what broke.
std::string check_gpu_program(std::uint64_t seed, int limits, const GpuRandomSize& size,
                              KernelProvider& provider, GpuRandomTotals& totals);
// On a recorded GPU that emulates them, one for each program.
std::string check_emulated_program(std::uint64_t seed, int limits, GpuRandomTotals& totals);

}  // namespace plimsoll::device::cuda
