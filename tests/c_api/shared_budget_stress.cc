// SPDX-License-Identifier: Apache-2.0
// Many threads under one changing limit for as long as asked for (scripts/stress.sh).
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/c_api/shared_budget.h"

int main(int argc, char** argv) {
  double seconds = 60;
  int threads = 16;
  std::uint64_t seed = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--seconds") seconds = std::atof(argv[i + 1]);
    if (flag == "--threads") threads = std::atoi(argv[i + 1]);
    if (flag == "--seed") seed = std::strtoull(argv[i + 1], nullptr, 10);
  }
  const auto report = plimsoll::testing::stress(threads, seconds, seed);
  const auto number = [](std::int64_t value) { return static_cast<long long>(value); };
  std::printf(
      "%d threads, %g s: %lld right, %lld refused, %lld cancelled, %lld late, %lld steps\n"
      "%lld limits, %lld runs waited, passed at most %lld times\n"
      "peak %lld bytes, highest limit %lld bytes\n%s\n",
      threads, seconds, number(report.right), number(report.refused), number(report.cancelled),
      number(report.late), number(report.steps), number(report.limits), number(report.waited),
      number(report.most_passed), number(report.peak_bytes), number(report.highest_limit_bytes),
      report.broken.empty() ? "nothing broke" : report.broken.c_str());
  return report.broken.empty() ? 0 : 1;
}
