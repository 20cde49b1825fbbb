// SPDX-License-Identifier: Apache-2.0
#include "tests/device/cuda/gpu_random_check.h"

#include <algorithm>
#include <vector>

#include "runtime/backend/backends.h"
#include "runtime/device/cpu/cpu_device.h"
#include "tests/cases/compare.h"
#include "tests/cases/random_module.h"
#include "tests/device/cuda/emulated_kernels.h"
#include "tests/device/cuda/gpu_op_case_check.h"
#include "tests/device/cuda/recorded_gpu.h"
#include "tests/executor/limit_check.h"

namespace plimsoll::device::cuda {
namespace {

// As tests/executor/random_program_check.cc has it.
constexpr double kTolerance = 2e-3, kSmallestScale = 1e-3;

// Plain training steps, mixed programs and rare operations.
cases::RandomModuleOptions options_of(std::uint64_t seed, const GpuRandomSize& size) {
  cases::RandomModuleOptions options;
  options.instructions = size.instructions;
  options.smallest_bytes = 512;
  options.largest_bytes = size.largest_bytes;
  options.large_constants = seed % 5 == 2;
  options.rare = seed % 4 == 1;
  if (seed % 4 == 3) {
    options.control_flow = options.mixed_dtypes = false;
    options.gates = true;
    options.whole_words = seed % 8 == 7;
  }
  return options;
}

testing::LimitOptions limits_of(std::uint64_t seed) {
  testing::LimitOptions options;
  options.optimize = seed % 3 != 0;
  options.remedies.compress = seed / 2 % 2 == 1;
  options.remedies.swap = seed / 4 % 2 == 1;
  options.remedies.recompute = !options.remedies.compress || seed / 8 % 2 == 0;
  if (options.remedies.swap) options.host_bytes = 64 << 20;
  return options;
}

}  // namespace

std::string check_gpu_program(std::uint64_t seed, int limits, const GpuRandomSize& size,
                              KernelProvider& provider, GpuRandomTotals& totals) {
  const auto module = cases::random_module(seed, options_of(seed, size));
  if (module == nullptr) return "the text of the program is not valid";
  const auto arguments = cases::random_arguments(*module, seed + 1);
  std::string error;
  const auto cpu = backend::create_kernels(cpu_device());
  if (!cpu.ok()) return cpu.status().to_string();
  const bool optimize = limits_of(seed).optimize;
  const ir::Literal expected = testing::run_unlimited(*module, arguments, **cpu, optimize, error);
  if (!error.empty()) return "on the CPU: " + error;
  const ir::Literal result = testing::run_unlimited(*module, arguments, provider, optimize, error);
  if (!error.empty()) return error;
  const bool is_exact =
      !has_opcode(*module, {ir::Opcode::dot, ir::Opcode::convolution, ir::Opcode::custom_call});
  error = is_exact ? cases::compare_bits(expected, result)
                   : cases::compare_close(expected, result, kTolerance, kSmallestScale);
  if (!error.empty()) return "against the CPU: " + error;
  testing::LimitCheck report;
  error =
      testing::check_limits(*module, arguments, provider, seed, limits, limits_of(seed), &report);
  if (!error.empty()) return error;
  ++totals.programs;
  totals.exact += is_exact ? 1 : 0;
  totals.instructions += module->instruction_count();
  totals.limits += report.limits;
  totals.recomputing_plans += report.recomputing_plans;
  totals.encoding_plans += report.encoding_plans;
  totals.swapping_plans += report.swapping_plans;
  totals.encoding_kernels += report.encoding_kernels;
  totals.decoding_kernels += report.decoding_kernels;
  return {};
}

std::string check_emulated_program(std::uint64_t seed, int limits, GpuRandomTotals& totals) {
  RecordingOptions recording;
  recording.module_bytes = 64 << 10;
  recording.schedule = seed % 2 == 0 ? Schedule::late : Schedule::random;
  recording.seed = static_cast<unsigned>(seed);
  recording.has_products = seed % 4 >= 2;
  recording.has_convolutions = seed % 8 >= 4;
  recording.compute_capability = seed % 3 == 1 ? 75 : 90;
  RecordedGpu gpu(recording, 0, create_emulated_kernels);
  // Threads are emulated one after the other, so of a few kilobytes a value.
  const std::string error = check_gpu_program(seed, limits, {}, *gpu.provider(), totals);
  return error.empty() ? gpu.close() : error;
}

}  // namespace plimsoll::device::cuda
