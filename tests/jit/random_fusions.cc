// SPDX-License-Identifier: Apache-2.0
// random_fusions FIRST COUNT: for every seed, each op case among random neighbours, with its own
// shapes or at a random size around the edges of vectors, tiles and chunks (fusion_check.h). One
// line per failure with the shrunk module, a summary at the end. Exit code 1 when anything failed.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/cases/op_cases.h"
#include "tests/cases/random.h"
#include "tests/jit/fusion_check.h"

int main(int argc, char** argv) {
  using namespace plimsoll;
  const std::uint64_t first = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
  const std::uint64_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  auto compiler = jit::Compiler::create();
  if (!compiler.ok()) {
    std::fprintf(stderr, "random_fusions: %s\n", compiler.status().to_string().c_str());
    return 1;
  }
  constexpr std::int64_t kExtents[] = {1,  2,  3,  7,   8,   9,   15,   16,   17,   31,   32,    33,
                                       63, 64, 65, 127, 255, 257, 1023, 2047, 2049, 4097, 50'021};
  jit::testing::FusionCheck totals;
  std::uint64_t failures = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    for (std::size_t i = 0; i < cases::op_cases().size(); ++i) {
      cases::Random random(seed * 100'003 + i);
      std::int64_t extent = random.chance(0.7) ? kExtents[random.below(std::size(kExtents))] : 0;
      if (extent > 0 && cases::resized(cases::op_cases()[i], extent).empty()) extent = 0;
      const std::string error =
          jit::testing::check_random_fusion(i, extent, random.bits() >> 16, **compiler, totals);
      if (error.empty()) continue;
      ++failures;
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), error.c_str());
      std::fflush(stdout);
    }
  }
  std::printf(
      "%lld fusions of %lld instructions in %lld launches (%lld in place), %lld not fusible, %llu "
      "failures\n",
      static_cast<long long>(totals.fusions), static_cast<long long>(totals.instructions),
      static_cast<long long>(totals.launches), static_cast<long long>(totals.in_place),
      static_cast<long long>(totals.not_fusible), static_cast<unsigned long long>(failures));
  return failures == 0 ? 0 : 1;
}
