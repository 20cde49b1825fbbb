// SPDX-License-Identifier: Apache-2.0
// random_programs FIRST COUNT LIMITS FOLDER KIND: random programs at random limits (limit_check.h),
// of KIND alone where one is given (random_program_check.h), one line per failure (the program is
// written into FOLDER, where one is given), a summary at the end. Exit code 1 when anything failed.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/compare.h"
#include "tests/cases/random_module.h"
#include "tests/executor/random_program_check.h"
#include "tests/executor/test_provider.h"

int main(int argc, char** argv) {
  using namespace plimsoll;
  const std::uint64_t first = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
  const std::uint64_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 500;
  const int limits = argc > 3 ? std::atoi(argv[3]) : 4;
  auto provider = create_provider();
  if (!provider.ok()) {
    std::fprintf(stderr, "random_programs: %s\n", provider.status().to_string().c_str());
    return 1;
  }
  testing::RandomProgramTotals totals;
  const std::string kind = argc > 5 ? argv[5] : "";
  std::uint64_t failures = 0, done = 0;
  for (std::uint64_t seed = first; done < count; ++seed) {
    if (!kind.empty() && testing::kind_of_program(seed) != kind) {
      if (seed - first > 64 && done == 0) break;
      continue;
    }
    ++done;
    const std::string error = testing::check_random_program(seed, **provider, limits, totals);
    if (error.empty()) continue;
    ++failures;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), error.c_str());
    if (argc > 4 && *argv[4] != 0) {
      const auto module = testing::random_program(seed);
      std::ofstream(std::string(argv[4]) + "/" + std::to_string(seed) + ".hlo")
          << (module == nullptr ? "" : ir::to_text(*module));
    }
  }
  std::printf(
      "%llu random programs, %lld instructions, %lld runs under a limit (%lld of them recomputed, "
      "%lld encoded, %lld swapped, %lld by the kernels' threads, %lld with residuals by slice, "
      "%lld with constants that come when they are needed; %lld results encoded and %lld "
      "inputs "
      "decoded inside kernels; %lld joint launches, %lld collectives beside kernels), mean floor "
      "%.0f %% of the peak, %llu "
      "failures\n",
      static_cast<unsigned long long>(done), static_cast<long long>(totals.instructions),
      static_cast<long long>(totals.limits), static_cast<long long>(totals.recomputing_plans),
      static_cast<long long>(totals.encoding_plans), static_cast<long long>(totals.swapping_plans),
      static_cast<long long>(totals.synchronous_plans),
      static_cast<long long>(totals.slicing_plans), static_cast<long long>(totals.streaming_plans),
      static_cast<long long>(totals.encoding_kernels),
      static_cast<long long>(totals.decoding_kernels),
      static_cast<long long>(totals.joint_launches), static_cast<long long>(totals.beside),
      done > 0 ? 100 * totals.floor_share / static_cast<double>(done) : 0.0,
      static_cast<unsigned long long>(failures));
  return failures == 0 && (done > 0 || count == 0) ? 0 : 1;
}
