// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/recorded/joint_pack.h"

#include <algorithm>
#include <utility>

#include "runtime/planner/remat/local_search.h"
#include "runtime/planner/remat/search_clock.h"

namespace plimsoll::planner {
namespace {

constexpr double kImproveWorkPerOp = 1e5;
constexpr int kRounds = 16;
constexpr int kPackEffort = 1, kThoroughPackEffort = 6;
// A schedule that is slower than the one whose bytes fit by no more than this is good enough.
constexpr double kNear = 1.001;

// A problem whose ops ask for more room than they need: where buffers end above the limit, that
// much less may live.
class Reserve {
 public:
  Reserve(const Problem& problem, std::int64_t limit) : problem_(problem), limit_(limit) {
    extra_.assign(problem.ops.size(), 0);
  }

  const Problem& problem() const { return problem_; }

  // Takes `share` of what is too much away from all that runs where something was too high, from
  // what the schedule used there on.
  void tighten(const Schedule& schedule, const AddressCheck& check, double share) {
    std::vector<std::int64_t> profile;
    evaluate(problem_, schedule, &profile);
    const auto step =
        static_cast<std::int64_t>(share * static_cast<double>(check.height - limit_)) + 1;
    IdVector<OpId, char> touched(extra_.size(), 0);
    for (const auto& [first, last] : check.over) {
      for (auto t = at(std::max(first, 0)); t < std::min(at(last), schedule.size()); ++t) {
        const OpId op = schedule[t];
        // Where the schedule stayed far below the limit anyway, nothing has to go.
        if (touched[op] || profile[t] + step <= limit_) continue;
        touched[op] = 1;
        const std::int64_t want = extra_[op] + limit_ - profile[t] + step;
        set(op, std::min(want, extra_[op] + 2 * step));
      }
    }
  }

  void loosen(double share) {
    for (const OpId op : extra_.ids()) {
      set(op, static_cast<std::int64_t>(static_cast<double>(extra_[op]) * share));
    }
  }

 private:
  void set(OpId op, std::int64_t extra) {
    extra = std::min(extra, limit_ / 2);
    problem_.ops[op].workspace += extra - extra_[op];
    extra_[op] = extra;
  }

  Problem problem_;
  const std::int64_t limit_;
  IdVector<OpId, std::int64_t> extra_;
};

AddressCheck check_packing(const Problem& problem, const Schedule& schedule,
                           std::int64_t arena_limit, std::int64_t alignment, int effort,
                           Packing& packing) {
  const std::vector<Lifetime> lives = residencies(problem, schedule);
  packing = pack(lives, alignment, arena_limit, effort);
  AddressCheck check;
  check.height = packing.height;
  for (std::size_t i = 0; i < lives.size(); ++i) {
    if (lives[i].size <= 0 || packing.offsets[i] + lives[i].size <= arena_limit) continue;
    check.over.emplace_back(static_cast<std::int32_t>(lives[i].lower),
                            static_cast<std::int32_t>(lives[i].upper));
  }
  return check;
}

}  // namespace

std::vector<Lifetime> residencies(const Problem& problem, std::span<const OpId> schedule) {
  const Liveness liveness = find_liveness(problem, schedule);
  const auto end = static_cast<std::int64_t>(schedule.size());
  std::vector<Lifetime> lives;
  for (std::size_t t = 0; t < schedule.size(); ++t) {
    std::int32_t slot = liveness.first_output[t];
    for (const ValueId v : problem.outputs[schedule[t]]) {
      const auto last = std::min<std::int64_t>(liveness.last_use[at(slot++)] + 1, end);
      const bool is_here = v >= 0 && problem.in_arena(v);
      lives.push_back({static_cast<std::int64_t>(t), last, is_here ? problem.values[v].bytes : 0});
    }
  }
  for (std::size_t t = 0; t < schedule.size(); ++t) {
    const std::int64_t bytes = problem.ops[schedule[t]].workspace;
    const auto at = static_cast<std::int64_t>(t);
    if (bytes > 0) lives.push_back({at, at + 1, bytes});
  }
  return lives;
}

std::optional<Schedule> fit_addresses(const Problem& problem, Schedule start,
                                      std::int64_t arena_limit, std::int64_t min_bytes,
                                      const CheckAddresses& check, int rounds) {
  Reserve reserve(problem, arena_limit);
  std::optional<Schedule> best;
  double best_seconds = 0;
  Schedule now = std::move(start);
  const double good_seconds = total_seconds(problem, now) * kNear;
  double share = 0.5;
  for (int round = rounds; round > 0; --round) {
    const AddressCheck found = check(now, round - 1);
    if (found.height <= arena_limit) {
      const double seconds = total_seconds(problem, now);
      const bool is_faster = !best || seconds < best_seconds;
      if (is_faster) {
        best = now;
        best_seconds = seconds;
      }
      if (best_seconds <= good_seconds) break;
      // Was it held back more than it needs?
      reserve.loosen(is_faster ? 0.8 : 0.6);
    } else {
      reserve.tighten(now, found, share);
    }
    LocalSearch search(reserve.problem(), min_bytes, false, static_cast<std::uint64_t>(round));
    Schedule next = now;
    if (!search.fit(next, arena_limit)) {
      // Too much at once: from the best so far with less held back.
      reserve.loosen(0.5);
      share *= 0.7;
      if (best) now = *best;
      continue;
    }
    SearchClock clock(
        static_cast<std::int64_t>(kImproveWorkPerOp * static_cast<double>(problem.ops.size())), 0);
    search.improve(next, arena_limit, clock);
    now = std::move(next);
  }
  return best;
}

std::optional<AddressedSchedule> search_addressed_schedule(const Problem& problem,
                                                           std::int64_t arena_limit,
                                                           std::int64_t min_bytes,
                                                           std::int64_t alignment,
                                                           const SearchEffort& effort) {
  std::optional<AddressedSchedule> best;
  double best_seconds = 0;
  const auto check = [&](const Schedule& schedule, int rounds_left) {
    Packing packing;
    // The first schedule is the fastest there is; the last ones are the last chance.
    const bool thorough = rounds_left + 1 == kRounds || rounds_left < 2;
    AddressCheck found = check_packing(problem, schedule, arena_limit, alignment,
                                       thorough ? kThoroughPackEffort : kPackEffort, packing);
    const double seconds = total_seconds(problem, schedule);
    if (found.height <= arena_limit && (!best || seconds < best_seconds)) {
      best = AddressedSchedule{schedule, std::move(packing)};
      best_seconds = seconds;
    }
    return found;
  };
  std::int64_t bytes = arena_limit;
  for (int attempt = 0; attempt < 4 && !best; ++attempt) {
    auto schedule = search_schedule(problem, bytes, min_bytes, effort);
    if (!schedule) break;
    fit_addresses(problem, std::move(*schedule), arena_limit, min_bytes, check, kRounds);
    // Nothing near it packs: begin with fewer bytes everywhere.
    bytes -= bytes / 12;
  }
  return best;
}

}  // namespace plimsoll::planner
