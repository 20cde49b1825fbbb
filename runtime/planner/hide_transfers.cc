// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/planner/timeline.h"

namespace plimsoll::planner {
namespace {

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

// One pass over the waits that last, in order of time. Times and bytes are those of the schedule at
// the start of the pass, bytes kept up to date as things are moved.
class Mover {
 public:
  Mover(const Problem& problem, Schedule& schedule, std::int64_t limit)
      : problem_(problem), schedule_(schedule), limit_(limit), line_(simulate(problem, schedule)) {
    evaluate(problem, schedule, &profile_);
  }

  bool run() {
    bool any = false;
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(schedule_.size()); ++t) {
      if (line_.stall[at(t)] <= 0) continue;
      const Op& wait = problem_.ops[at(schedule_[at(t)])];
      const bool in = problem_.ops[at(wait.transfer)].kind == StepKind::swap_in;
      any = (in ? start_earlier(t, wait.transfer) : wait_later(t)) || any;
    }
    return any;
  }

 private:
  // Moves what stands at `from` to `to`; the times of what lies between stay those of their ops.
  void move(std::int32_t from, std::int32_t to) {
    const auto shift = [&](auto& list) {
      if (from < to) {
        std::rotate(list.begin() + from, list.begin() + from + 1, list.begin() + to + 1);
      } else {
        std::rotate(list.begin() + to, list.begin() + from, list.begin() + from + 1);
      }
    };
    shift(schedule_);
    shift(profile_);
    shift(line_.start);
    shift(line_.stall);
  }

  bool start_earlier(std::int32_t wait, OpId transfer) {
    std::int32_t from = wait;
    while (from > 0 && schedule_[at(from)] != transfer) --from;
    const ValueId stored = problem_.reads[transfer].front();
    const ValueId transit = problem_.outputs[transfer].front();
    const std::int64_t bytes = problem_.values[at(transit)].bytes;
    const double wanted = line_.start[at(wait)] - problem_.ops[at(transfer)].seconds;
    std::int32_t to = from;
    while (to > 0 && line_.start[at(to)] > wanted && profile_[at(to - 1)] + bytes <= limit_) {
      const OpId before = schedule_[at(to - 1)];
      // Not before the value has left, nor before the copy that came last was waited for.
      const auto reads = problem_.reads[before];
      if (std::find(reads.begin(), reads.end(), stored) != reads.end()) break;
      --to;
    }
    if (to == from) return false;
    for (std::int32_t t = to; t < from; ++t) profile_[at(t)] += bytes;
    move(from, to);
    return true;
  }

  bool wait_later(std::int32_t from) {
    const OpId wait = schedule_[at(from)];
    const ValueId leaving = problem_.reads[wait].front();
    const ValueId stored = problem_.reads[wait].back();
    const std::int64_t bytes = problem_.values[at(leaving)].bytes;
    const double wanted = line_.start[at(from)] + line_.stall[at(from)];
    std::int32_t to = from;
    const auto end = static_cast<std::int32_t>(schedule_.size());
    while (to + 1 < end && line_.start[at(to)] < wanted && profile_[at(to + 1)] + bytes <= limit_) {
      const OpId next = schedule_[at(to + 1)];
      const auto reads = problem_.reads[next];
      const auto outputs = problem_.outputs[next];
      if (std::find(reads.begin(), reads.end(), stored) != reads.end()) break;
      if (std::find(reads.begin(), reads.end(), leaving) != reads.end()) break;
      if (std::find(outputs.begin(), outputs.end(), leaving) != outputs.end()) break;
      ++to;
    }
    if (to == from) return false;
    for (std::int32_t t = from + 1; t <= to; ++t) profile_[at(t)] += bytes;
    move(from, to);
    return true;
  }

  const Problem& problem_;
  Schedule& schedule_;
  const std::int64_t limit_;
  Timeline line_;
  std::vector<std::int64_t> profile_;
};

}  // namespace

void hide_transfers(const Problem& problem, Schedule& schedule, std::int64_t arena_limit) {
  constexpr int kPasses = 4;
  double seconds = predicted_seconds(problem, schedule);
  for (int pass = 0; pass < kPasses; ++pass) {
    Schedule moved = schedule;
    if (!Mover(problem, moved, arena_limit).run()) return;
    const double now = predicted_seconds(problem, moved);
    if (now >= seconds || !is_valid(problem, moved) ||
        evaluate(problem, moved).arena_peak > arena_limit) {
      return;
    }
    schedule = std::move(moved);
    seconds = now;
  }
}

}  // namespace plimsoll::planner
