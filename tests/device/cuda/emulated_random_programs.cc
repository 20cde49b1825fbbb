// SPDX-License-Identifier: Apache-2.0
// emulated_random_programs FIRST COUNT LIMITS: random programs by kernels that are compiled for
// GPUs at random limits (emulated_random_check.h), one line per failure, a summary at the end. Exit
// code 1 when anything failed.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/device/cuda/emulated_random_check.h"

int main(int argc, char** argv) {
  using namespace plimsoll::device::cuda;
  const std::uint64_t first = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
  const std::uint64_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 500;
  const int limits = argc > 3 ? std::atoi(argv[3]) : 2;
  EmulatedRandomTotals totals;
  std::uint64_t failures = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const std::string error = check_emulated_program(seed, limits, totals);
    if (error.empty()) continue;
    ++failures;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), error.c_str());
    std::fflush(stdout);
  }
  const auto number = [](auto n) { return static_cast<long long>(n); };
  std::printf(
      "%lld of %lld random programs on an emulated GPU, %lld instructions, %lld with the CPU's "
      "bits; "
      "%lld runs under a limit (%lld recomputed, %lld encoded, %lld swapped; %lld results encoded "
      "and %lld inputs decoded inside kernels), %lld failures\n",
      number(totals.programs), number(count), number(totals.instructions), number(totals.exact),
      number(totals.limits), number(totals.recomputing_plans), number(totals.encoding_plans),
      number(totals.swapping_plans), number(totals.encoding_kernels),
      number(totals.decoding_kernels), number(failures));
  for (const auto& [operation, programs] : totals.refused) {
    std::printf("without a kernel for %s: %lld programs\n", operation.c_str(), number(programs));
  }
  return failures == 0 ? 0 : 1;
}
