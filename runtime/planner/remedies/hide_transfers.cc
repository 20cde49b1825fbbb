// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remedies/hide_transfers.h"

#include <algorithm>
#include <array>
#include <limits>

#include "runtime/base/index.h"
#include "runtime/planner/problem/timeline.h"
#include "runtime/planner/remedies/remedies.h"
#include "runtime/planner/remedies/remedies_apply.h"

namespace plimsoll::planner {
namespace {

// One pass over the waits that last, in order of time. Times and bytes are those of the schedule at
// the start of the pass, bytes kept up to date as things are moved.
//
// A swap_wait that stalls waits for a transfer that began too late, or that was held up by another
// on its engine. Starting a copy in earlier takes its bytes earlier; waiting for a copy out later
// gives its bytes back later. Both are done as far as the profile has the bytes and no op in
// between touches what is moved. Every pass is checked as a whole (valid, fits, not slower) before
// it counts.
class Mover {
 public:
  Mover(const Problem& problem, Schedule& schedule, std::int64_t limit)
      : problem_(problem), schedule_(schedule), limit_(limit), line_(simulate(problem, schedule)) {
    evaluate(problem, schedule, &profile_);
  }

  // Gives each copy the last stretch of its engine before it is waited for: those that are waited
  // for early are not held up by others, and those behind one another start early enough.
  // Copies out first, whatever the compiler.
  bool line_up() {
    const bool moved = line_up(StepKind::swap_out);
    return line_up(StepKind::swap_in) || moved;
  }

  bool run() {
    bool any = false;
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(schedule_.size()); ++t) {
      if (line_.stall[at(t)] <= 0) continue;
      const Op& wait = problem_.ops[schedule_[at(t)]];
      const bool in = problem_.ops[wait.transfer].kind == StepKind::swap_in;
      any = (in ? start_earlier(t, wait.transfer) : wait_later(t)) || any;
    }
    return any;
  }

 private:
  struct Copy {
    std::int32_t start, wait;
    double seconds;
  };

  // The copies of one direction by the time of their waits, the last first.
  std::vector<Copy> list_copies(StepKind kind) const {
    IdVector<OpId, std::int32_t> started(problem_.ops.size(), -1);
    std::vector<Copy> copies;
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(schedule_.size()); ++t) {
      const OpId op = schedule_[at(t)];
      const Op& what = problem_.ops[op];
      if (what.kind == kind) started[op] = t;
      if (what.transfer < 0 || problem_.ops[what.transfer].synchronous) continue;
      if (problem_.ops[what.transfer].kind == kind) {
        copies.push_back({started[what.transfer], t, problem_.ops[what.transfer].seconds});
      }
    }
    std::reverse(copies.begin(), copies.end());
    return copies;
  }

  // Copies out move towards their waits, at no cost; copies in away from them, as far as there is
  // memory. Positions of copies not yet looked at stay valid: they lie before the moved part, or
  // are found again.
  bool line_up(StepKind kind) {
    bool any = false;
    std::array<double, kEngines> taken_from{};
    taken_from.fill(std::numeric_limits<double>::infinity());
    for (const Copy& copy : list_copies(kind)) {
      const OpId wait_op = schedule_[at(copy.wait)];
      if (problem_.ops[wait_op].transfer < 0) continue;
      const OpId op = problem_.ops[wait_op].transfer;
      std::int32_t from = copy.wait;
      while (from > 0 && schedule_[at(from)] != op) --from;
      double& engine = taken_from[at(problem_.ops[op].engine)];
      const double wanted = std::min(engine, line_.start[at(copy.wait)]) - copy.seconds;
      engine = std::max(0.0, wanted);
      if (kind == StepKind::swap_in) {
        any = start_by(from, op, wanted) || any;
        continue;
      }
      std::int32_t to = from;
      while (to + 1 < copy.wait && line_.start[at(to + 1)] <= wanted) ++to;
      if (to == from) continue;
      move(from, to);
      any = true;
    }
    return any;
  }

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
    return start_by(from, transfer, line_.start[at(wait)] - problem_.ops[transfer].seconds);
  }

  bool start_by(std::int32_t from, OpId transfer, double wanted) {
    const ValueId stored = problem_.reads[transfer].front();
    const ValueId transit = problem_.outputs[transfer].front();
    const std::int64_t bytes = problem_.values[transit].bytes;
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
    const std::int64_t bytes = problem_.values[leaving].bytes;
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
  const auto fits = [&](const Schedule& moved) {
    return is_valid(problem, moved) && keeps_transfers(problem, moved) &&
           evaluate(problem, moved).arena_peak <= arena_limit;
  };
  // Lining copies up first helps where they hold one another up, and costs memory elsewhere.
  const Schedule given = schedule;
  for (const bool in_line : {false, true}) {
    Schedule current = given;
    if (in_line && !Mover(problem, current, arena_limit).line_up()) return;
    if (in_line && !fits(current)) return;
    for (int pass = 0; pass <= kPasses; ++pass) {
      const double now = predicted_seconds(problem, current);
      if (now < seconds) {
        seconds = now;
        schedule = current;
      }
      Schedule moved = current;
      if (!Mover(problem, moved, arena_limit).run() || !fits(moved)) break;
      current = std::move(moved);
    }
  }
}

}  // namespace plimsoll::planner
