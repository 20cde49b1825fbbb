// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remedies/swap_search.h"

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/planner/remedies/link_bytes.h"
#include "runtime/planner/remedies/swap_cover.h"

// Swapping and recomputing at once.
//
// Which values a link takes away decides which had better be recomputed, and which are recomputed
// decides when the link is needed. What breaks the circle: how many bytes can be elsewhere at a
// time step does not depend on which ones. A link of s bytes a second has taken at most s * (time
// so far) by then, and brings at most s * (time to the end) back after it. So the search has two
// stages, and repeats them:
// 1. Recompute under a limit that is raised at each time step by those bytes (link_bytes.h). That
//    is a problem of recomputation like any other, for the searches of remat/.
// 2. Cover what the schedule is over the real limit by copies of values that lie idle
//    (swap_cover.h), and see how long it takes with each engine doing one copy at a time
//    (swap_play.h).
// Where the second stage does not fit or waits, the first counted on too much there: the raised
// limit is lowered by a share everywhere, or by what was missing at the time steps where it was,
// and both are done again. Where nothing waits, a little more is counted on.
//
// Example: 10 ops of 1 s make 10 bytes each, 10 more read them last to first; a limit of 50, a link
// of 4 bytes/s each way. Keeping all takes 100 at step 10. By then the link can have taken 40: the
// raised limit is 50 at the ends and 90 in the middle, under which one value is recomputed instead
// of five. The values kept across the middle lie idle; the four made first have the longest
// intervals, and are copied out while the later ones are made.

namespace plimsoll::planner {
namespace {

constexpr int kLevels = 64;
// How much is tried.
struct SwapTrials {
  // A raised limit is what the links can have taken, less `slack` values of typical size, times a
  // `share`.
  std::vector<double> slacks, shares;
  std::vector<double> more;               // time besides, as a share, where nothing else works
  int cuts = 0;                           // how often a limit is cut
  int quick_rounds = 0, long_rounds = 0;  // how often the best one is enlarged
  std::size_t good = 0;                   // how many are searched for long
  double long_share = 0;                  // of the work of a search that enlarges for long
  bool hurries = false;                   // copies that are waited for may go before others
};
const SwapTrials& trials_of(SwapEffort effort) {
  static const std::vector<double> slacks{0, 0.5, 1, 2};
  static const std::vector<double> shares{1, 0.95, 0.9, 0.8, 0.7, 0.55, 0.4, 0.2};
  static const std::vector<double> more{0.1, 0.3, 1, 3};
  static const SwapTrials brief{{0, 1}, {1}, {1}, 4, 0, 2, 1, 1, true};
  static const SwapTrials quick{slacks, shares, more, 3, 0, 0, 0, 0, false};
  static const SwapTrials thorough{slacks, shares, more, 3, 8, 1, 2, 0.3, false};
  switch (effort) {
    case SwapEffort::brief:
      return brief;
    case SwapEffort::quick:
      return quick;
    case SwapEffort::thorough:
      break;
  }
  return thorough;
}
// What is left of a limit where cutting it changed nothing.
constexpr double kSameShare = 0.8;
// Ways to cover each schedule: fewer where that takes long.
constexpr int kLeastTries = 2, kMostTries = 8, kTriesTimesOps = 4'000;

using BytesPerOp = std::vector<std::int64_t>;

class SwapSearch {
 public:
  SwapSearch(const SwapModel& model, SwapEffort effort, const Recomputer& recompute)
      : model_(model),
        trials_(trials_of(effort)),
        recompute_(recompute),
        tries_(std::clamp(kTriesTimesOps / model.problem().op_count(), kLeastTries, kMostTries)) {
    for (const Op& op : model.problem().ops) seconds_.push_back(op.seconds);
    // A copy of a value of typical size: the latency counts, too, and one in each direction is
    // under way.
    double bytes = 0, squares = 0;
    for (const Value& value : model.problem().values) {
      if (value.home != Home::arena) continue;
      const auto size = static_cast<double>(value.bytes);
      bytes += size;
      squares += size * size;
    }
    typical_ = bytes > 0 ? squares / bytes : 0;
    for (const MemorySpace tier : model.used_tiers()) {
      Tier& real = real_[tier] = model.tiers()[tier];
      for (double* speed : {&real.out_bytes_per_second, &real.in_bytes_per_second}) {
        const double takes = real.latency_seconds + typical_ / *speed;
        if (takes > 0 && typical_ > 0) *speed = typical_ / takes;
      }
    }
  }

  std::optional<CoveredSchedule> run(std::span<const Schedule> starts) {
    for (const Schedule& start : starts) {
      consider(cover_by_copies(model_, start, tries_, trials_.hurries), start,
               BytesPerOp(seconds_.size(), 0));
      if (is_free()) return std::move(best_);
    }
    if (recompute_) {
      explore();
      refine();
    }
    return std::move(best_);
  }

 private:
  struct Trial {
    double nanoseconds = 0;
    BytesPerOp bytes;
    Schedule schedule;
  };

  bool is_free() const { return best_ && best_->nanoseconds <= model_.once_nanoseconds(); }

  BytesPerOp bytes_of(double share, double slack, double more_seconds) const {
    BytesPerOp bytes = bytes_in_tiers(seconds_, real_, more_seconds);
    for (std::int64_t& b : bytes) {
      b = std::max<std::int64_t>(
          0, static_cast<std::int64_t>(static_cast<double>(b) * share - slack * typical_));
    }
    return bytes;
  }

  // For each slack from all that the links can take down, until no op has to wait for what is
  // copied; the last limit that was too high is then cut where it was.
  void explore() {
    for (const double slack : trials_.slacks) {
      for (const double share : trials_.shares) {
        const BytesPerOp bytes = bytes_of(share, slack, 0);
        const auto found = attempt(bytes, 0, {});
        if (is_free()) return;
        if (!found) break;  // nor with less
        if (found->fits && found->stalled == 0) break;
        cut(bytes, *found, 0, {}, trials_.cuts);
      }
    }
    if (best_) return;
    for (const double more : trials_.more) {
      const BytesPerOp bytes = bytes_of(1, 0, more * 1e-9 * model_.once_nanoseconds());
      auto found = attempt(bytes, 0, {});
      if (found) cut(bytes, std::move(*found), 0, {}, trials_.cuts);
      if (best_) break;
    }
  }

  // Takes from the limit what the links could not carry, until they can; from all of it where that
  // changed nothing.
  void cut(BytesPerOp bytes, CoveredSchedule found, double effort, const Schedule& start,
           int rounds) {
    bool is_same = false;
    for (int round = 0; round < rounds; ++round) {
      if (found.fits && found.stalled == 0) return;
      widen(found.over);
      for (std::size_t t = 0; t < bytes.size(); ++t) {
        bytes[t] = std::max<std::int64_t>(0, bytes[t] - found.over[t]);
        if (is_same)
          bytes[t] = static_cast<std::int64_t>(kSameShare * static_cast<double>(bytes[t]));
      }
      auto next = attempt(bytes, effort, start);
      if (!next || is_free()) return;
      is_same = next->nanoseconds == found.nanoseconds && next->stalled == found.stalled;
      found = std::move(*next);
    }
  }

  // A little more than the best had, again and again; then longer searches.
  void refine() {
    enlarge(0, trials_.quick_rounds);
    if (is_free() || trials_.good == 0) return;
    const std::vector<Trial> trials = good_;
    for (const Trial& trial : trials) {
      attempt(trial.bytes, 1, trial.schedule);
      if (is_free()) return;
    }
    enlarge(trials_.long_share, trials_.long_rounds);
  }

  void enlarge(double effort, int rounds) {
    double more = 0.04;
    for (int round = 0; round < rounds && best_ && !best_bytes_.empty() && !is_free(); ++round) {
      BytesPerOp bytes = best_bytes_;
      for (std::int64_t& b : bytes) {
        b += static_cast<std::int64_t>(static_cast<double>(b) * more);
      }
      const double before = best_->nanoseconds;
      auto found = attempt(bytes, effort, best_schedule_);
      if (found) cut(std::move(bytes), std::move(*found), effort, best_schedule_, 2);
      if (best_->nanoseconds == before) more /= 2;
    }
  }

  // What is over at one time step is over around it.
  static void widen(std::vector<std::int64_t>& over) {
    const auto n = std::ssize(over);
    const std::int64_t reach = std::max<std::int64_t>(1, n / 100);
    std::vector<std::int64_t> wide(over.size(), 0);
    for (std::int64_t t = 0; t < n; ++t) {
      if (over[at(t)] == 0) continue;
      for (std::int64_t k = std::max<std::int64_t>(0, t - reach); k <= std::min(n - 1, t + reach);
           ++k) {
        wide[at(k)] = std::max(wide[at(k)], over[at(t)]);
      }
    }
    over = std::move(wide);
  }

  std::optional<CoveredSchedule> attempt(const BytesPerOp& bytes, double effort,
                                         const Schedule& start) {
    const RelaxedProblem relaxed = add_bytes(model_.problem(), bytes, kLevels, Rounding::down);
    std::vector<Schedule> starts;
    if (!start.empty()) starts.push_back(into(relaxed, start));
    const auto found = recompute_(relaxed.problem, model_.limit() + relaxed.most, starts, effort);
    if (!found) return std::nullopt;
    Schedule schedule;
    for (const OpId op : *found) {
      if (relaxed.base_of[op] >= 0) schedule.push_back(relaxed.base_of[op]);
    }
    CoveredSchedule covered = cover_by_copies(model_, schedule, tries_, trials_.hurries);
    if (covered.fits) {
      good_.push_back({covered.nanoseconds, bytes, schedule});
      std::stable_sort(good_.begin(), good_.end(), [](const Trial& a, const Trial& b) {
        return a.nanoseconds < b.nanoseconds;
      });
      if (good_.size() > trials_.good) good_.pop_back();
    }
    consider(covered, schedule, bytes);
    return covered;
  }

  // The fastest; of equally fast ones, that which copies least.
  void consider(const CoveredSchedule& covered, const Schedule& schedule, BytesPerOp bytes) {
    if (!covered.fits) return;
    if (best_ && std::tie(best_->nanoseconds, best_->swapped_bytes) <=
                     std::tie(covered.nanoseconds, covered.swapped_bytes)) {
      return;
    }
    best_ = covered;
    best_schedule_ = schedule;
    best_bytes_ = std::move(bytes);
  }

  // What holds bytes changes right after the op before.
  static Schedule into(const RelaxedProblem& relaxed, const Schedule& schedule) {
    Schedule result;
    OpId next{0};
    const auto add_holders = [&] {
      while (next < relaxed.base_of.end_id() && relaxed.base_of[next] < 0) result.push_back(next++);
    };
    add_holders();
    for (const OpId base : schedule) {
      const OpId op = relaxed.op_of[base];
      result.push_back(op);
      if (op != next) continue;
      ++next;
      add_holders();
    }
    return result;
  }

  const SwapModel& model_;
  const SwapTrials& trials_;
  const Recomputer& recompute_;
  const int tries_;
  PerTier<Tier> real_;
  std::vector<double> seconds_;
  double typical_ = 0;
  std::optional<CoveredSchedule> best_;
  Schedule best_schedule_;
  BytesPerOp best_bytes_;
  std::vector<Trial> good_;  // the fastest
};

}  // namespace

std::optional<CoveredSchedule> search_swaps(const SwapModel& model, SwapEffort effort,
                                            const Recomputer& recompute,
                                            std::span<const Schedule> starts) {
  return SwapSearch(model, effort, recompute).run(starts);
}

}  // namespace plimsoll::planner
