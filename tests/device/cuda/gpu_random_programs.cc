// SPDX-License-Identifier: Apache-2.0
// gpu_random_programs WHERE FIRST COUNT LIMITS: random programs by kernels that are compiled for
// GPUs at random limits (gpu_random_check.h), one line per failure, a summary at the end. WHERE is
// `emulated` or the name of a GPU, "cuda:0". Exit code 1 when anything failed, 2 without that GPU.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "runtime/backend/backends.h"
#include "runtime/device/devices.h"
#include "tests/device/cuda/gpu_random_check.h"

int main(int argc, char** argv) {
  using namespace plimsoll::device::cuda;
  const std::string where = argc > 1 ? argv[1] : "emulated";
  const std::uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  const std::uint64_t count = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 500;
  const int limits = argc > 4 ? std::atoi(argv[4]) : 2;
  std::shared_ptr<plimsoll::device::KernelProvider> provider;
  if (where != "emulated") {
    const auto device = plimsoll::device::find_device(where);
    auto made = device.ok() ? plimsoll::backend::create_kernels(*device)
                            : decltype(plimsoll::backend::create_kernels(*device))(device.status());
    if (!made.ok()) {
      std::fprintf(stderr, "gpu_random_programs: %s\n", made.status().to_string().c_str());
      return 2;
    }
    provider = *made;
  }
  GpuRandomTotals totals;
  std::uint64_t failures = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    // Values as large as are cut into pieces otherwise than small ones.
    const GpuRandomSize size{.instructions = 40, .largest_bytes = 1 << 20};
    const std::string error = provider == nullptr
                                  ? check_emulated_program(seed, limits, totals)
                                  : check_gpu_program(seed, limits, size, *provider, totals);
    if (error.empty()) continue;
    ++failures;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), error.c_str());
    std::fflush(stdout);
  }
  const auto number = [](auto n) { return static_cast<long long>(n); };
  std::printf(
      "%s: %lld of %lld random programs, %lld instructions, %lld with the CPU's bits; %lld runs "
      "under a limit (%lld recomputed, %lld encoded, %lld swapped; %lld results encoded and %lld "
      "inputs decoded inside kernels), %lld failures\n",
      where.c_str(), number(totals.programs), number(count), number(totals.instructions),
      number(totals.exact), number(totals.limits), number(totals.recomputing_plans),
      number(totals.encoding_plans), number(totals.swapping_plans), number(totals.encoding_kernels),
      number(totals.decoding_kernels), number(failures));
  return failures == 0 ? 0 : 1;
}
