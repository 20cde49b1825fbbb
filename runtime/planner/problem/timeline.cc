// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/problem/timeline.h"

#include <algorithm>
#include <array>

// The model of time: compute steps run one after another; each engine does one transfer at a time,
// in the order in which they are started, beside the compute steps. Example: a copy out of 10 ms is
// started at 2 ms and waited for at 9 ms. Its engine is free: it ends at 12 ms, and the wait stalls
// 3 ms. Had another copy been under way on that engine until 5 ms, it would end at 15 ms and the
// wait would stall 6 ms. A synchronous copy of 4 ms that is started at 2 ms is over at 6 ms, when
// the next step begins; its wait is none.

namespace plimsoll::planner {

double transfer_seconds(const Tier& tier, std::int64_t bytes, double bytes_per_second) {
  return tier.latency_seconds + static_cast<double>(bytes) / bytes_per_second;
}

TransferTime time_transfer(const Tier& tier, std::int64_t bytes, bool out, bool synchronous) {
  const double rate = tier.*rate_of(out, synchronous);
  if (synchronous) return {0, rate > 0 ? static_cast<double>(bytes) / rate : 0, true};
  const double seconds = transfer_seconds(tier, bytes, rate);
  return {seconds, tier.compute_share * seconds, false};
}

// What an engine's thread takes from kernels was measured beside one kernel in large copies. In a
// step kernels also wait for copies and wake threads up for them: on two processors one with many
// small copies lost up to twice as much. Hence a synchronous copy may take more. How much more is a
// judgement: by this factor all are synchronous on few processors, and large ones are not on many.
TransferTime time_transfer(const Tier& tier, std::int64_t bytes, bool out) {
  constexpr double kAtMost = 6;
  const TransferTime beside = time_transfer(tier, bytes, out, false);
  const bool has_both =
      tier.synchronous_out_bytes_per_second > 0 && tier.synchronous_in_bytes_per_second > 0;
  if (!has_both) return beside;
  const TransferTime alone = time_transfer(tier, bytes, out, true);
  return alone.taken_seconds <= kAtMost * beside.taken_seconds ? alone : beside;
}

double upload_seconds(std::int64_t bytes, const Tier& host) {
  return std::max(copy_seconds(bytes), transfer_seconds(host, bytes, host.in_bytes_per_second));
}

double download_seconds(std::int64_t bytes, const Tier& host) {
  return std::max(copy_seconds(bytes), transfer_seconds(host, bytes, host.out_bytes_per_second));
}

// A pipeline of equal jobs: each part once, and the longest again for every round but one.
double sliced_seconds(const SlicedLoop& loop, double callee_seconds) {
  const auto rounds = static_cast<double>(loop.rounds);
  const double round = callee_seconds / rounds + loop.taken_seconds;
  double once = round, longest = round;
  for (const double seconds : loop.engine_seconds) {
    once += seconds;
    longest = std::max(longest, seconds);
  }
  return once + (rounds - 1) * longest + loop.lost_seconds;
}

void add_transfers(SlicedLoop& loop, const SlicedState& state, MemorySpace where,
                   const PerTier<Tier>& tiers) {
  const TransferTime time =
      time_transfer(tiers[where], state.slice_bytes, state.writes, state.synchronous);
  loop.engine_seconds[at(engine_of(where, state.writes))] += time.engine_seconds;
  loop.taken_seconds += time.taken_seconds;
  loop.rounds = std::max(loop.rounds, state.rounds);
}

Timeline simulate(const Problem& problem, std::span<const OpId> schedule) {
  Timeline line;
  line.start.assign(schedule.size(), 0);
  line.transfer_end.assign(schedule.size(), 0);
  line.stall.assign(schedule.size(), 0);
  std::array<double, kEngines> free{};
  IdVector<OpId, double> end(problem.ops.size(), 0);  // of the latest transfer an op started
  double now = 0;
  for (std::size_t t = 0; t < schedule.size(); ++t) {
    const OpId op = schedule[t];
    const Op& what = problem.ops[op];
    line.start[t] = now;
    if (what.synchronous) {
      now += what.taken_seconds;
      end[op] = line.transfer_end[t] = now;
    } else if (what.engine >= 0) {
      double& engine = free[at(what.engine)];
      engine = std::max(now, engine) + what.seconds;
      end[op] = engine;
      line.transfer_end[t] = engine;
      now += what.taken_seconds;
    } else if (what.transfer >= 0) {
      line.stall[t] = std::max(0.0, end[what.transfer] - now);
      line.stalled += line.stall[t];
      now += line.stall[t];
    } else {
      now += what.seconds;
    }
  }
  line.seconds = now;
  return line;
}

double predicted_seconds(const Problem& problem, std::span<const OpId> schedule) {
  IdVector<OpId, std::int32_t> runs(problem.ops.size(), 0);
  bool transfers = false;
  for (const OpId op : schedule) ++runs[op];
  double seconds = 0;
  for (const OpId op : runs.ids()) {
    if (problem.ops[op].engine >= 0) {
      transfers = true;
      seconds += runs[op] * problem.ops[op].taken_seconds;
    } else {
      seconds += runs[op] * problem.ops[op].seconds;
    }
  }
  return transfers ? seconds + simulate(problem, schedule).stalled : seconds;
}

}  // namespace plimsoll::planner
