// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/eager_loops/programs.h"
#include "benchmarks/training_steps/workload.h"
#include "runtime/memory/tiers.h"

namespace plimsoll::benchmarks {

// Where values are swapped to; a tier of its own for each context.
struct Place {
  std::string name;
  std::function<Result<memory::Tiers>()> make;
  bool known_speed = false;  // plans go by the tier's own word, not by this machine's link
};

// Fastest quarter, median and slowest quarter of what was measured.
struct Quartiles {
  double low = 0, median = 0, high = 0;
};
Quartiles quartiles(std::vector<double> values);

// A program under one limit that only swapping keeps, beside the same without a limit, in turns.
// Times are medians over the rounds, of one step or one run.
struct OverlapRow {
  std::string workload, place;
  double share = 0;  // of the unlimited peak
  std::int64_t limit_bytes = 0, floor_bytes = 0, peak_bytes = 0;
  bool ran = false;  // there was a plan
  bool same_bits = true;
  std::int64_t rounds = 0;
  std::int64_t transfers = 0, out_bytes = 0, in_bytes = 0;  // a round
  std::int64_t recomputes = 0;                              // a round, of programs without a plan
  double unlimited_seconds = 0, limited_seconds = 0;
  double transfer_seconds = 0;  // both engines' busy time, queueing and waiting excluded
  Quartiles added_seconds;      // limited over unlimited of the same round
  // Of the fastest rounds of both: what else runs on the machine only ever adds.
  double fastest_unlimited_seconds = 0, fastest_limited_seconds = 0;
  // Of programs with a plan: the last plan's, by all that was measured up to it.
  std::optional<double> predicted_unlimited_seconds, predicted_limited_seconds;
  std::optional<double> predicted_transfer_seconds;

  std::int64_t bytes() const { return out_bytes + in_bytes; }
  bool under_limit() const { return peak_bytes <= limit_bytes; }
  double link_bytes_per_second() const;
  // 1 - added / transfer seconds, as it comes: below 0 where the limit costs more than its
  // transfers take, above 1 where the limited program is the faster one.
  double hidden_share() const;
  double fastest_hidden_share() const;
  std::optional<double> predicted_hidden_share() const;
  // How far the median's error may shift that share.
  double uncertainty() const;
  // Transfers of 1 % of the step at least; less is lost in what steps differ by anyway.
  bool counts() const { return transfer_seconds >= 0.01 * unlimited_seconds; }
  // And less uncertainty than a quarter: the share says something.
  bool tells() const { return counts() && uncertainty() <= 0.25; }
};

struct OverlapOptions {
  std::vector<double> percents = {70, 50};
  int warm_up = 6;  // rounds before those that count: times are learned, plans made again by them
  int rounds = 15;
};

// Training steps, planned with swapping as the only remedy.
std::vector<OverlapRow> measure_training(const Workload& workload, const std::vector<Place>& places,
                                         const OverlapOptions& options);
// A program that evaluates every operation at once: nothing is planned ahead, and what is cheaper
// to compute again than to swap in is recomputed.
std::vector<OverlapRow> measure_eager(const EagerProgram& program, const EagerSize& size,
                                      const std::vector<Place>& places,
                                      const OverlapOptions& options);

}  // namespace plimsoll::benchmarks
