// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/recorded/recorded_swap_search.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

#include "benchmarks/recorded/recorded_swap_bytes.h"
#include "runtime/base/index.h"

namespace plimsoll::planner {
namespace {

constexpr int kLevels = 64;
// How often a room is cut, how many are searched for long, and how often the best is enlarged.
constexpr int kCuts = 3, kQuickRounds = 8, kSearchRounds = 1;
constexpr std::size_t kGood = 2;
// Ways to cover each schedule: fewer where that takes long.
constexpr int kLeastTries = 2, kMostTries = 8, kTriesTimesOps = 4'000;

using BytesPerOp = std::vector<std::int64_t>;  // per op

class CopySearch {
 public:
  CopySearch(const RecordedStep& step, std::int64_t limit, const Tier& tier,
             const SearchEffort& effort)
      : step_(step),
        limit_(limit),
        tier_(tier),
        effort_(effort),
        tries_(std::clamp(kTriesTimesOps / step.problem.op_count(), kLeastTries, kMostTries)) {
    for (const Op& op : step.problem.ops) seconds_.push_back(op.seconds);
    // A copy of a storage of typical size: the latency counts, too, and one in each direction is
    // under way.
    double bytes = 0, squares = 0;
    for (const Value& value : step.problem.values) {
      if (value.home != Home::arena) continue;
      const auto size = static_cast<double>(value.bytes);
      bytes += size;
      squares += size * size;
    }
    typical_ = bytes > 0 ? squares / bytes : 0;
    real_ = tier;
    for (double* speed : {&real_.out_bytes_per_second, &real_.in_bytes_per_second}) {
      const double takes = tier.latency_seconds + typical_ / *speed;
      if (takes > 0 && typical_ > 0) *speed = typical_ / takes;
    }
  }

  std::optional<CoveredSchedule> run(std::span<const OpId> recomputed) {
    if (!recomputed.empty()) {
      best_ = cover_by_copies(step_, recomputed, limit_, tier_, tries_);
      if (!best_->fits) best_.reset();
      best_schedule_.assign(recomputed.begin(), recomputed.end());
      best_bytes_.assign(seconds_.size(), 0);
    }
    explore();
    if (effort_.level != SearchEffort::Level::quick) refine();
    return std::move(best_);
  }

 private:
  struct Trial {
    std::int64_t nanoseconds = 0;
    BytesPerOp bytes;
    Schedule schedule;
  };

  bool is_free() const { return best_ && best_->nanoseconds <= step_.total_nanoseconds; }

  BytesPerOp bytes_of(double share, double slack, double more_seconds) const {
    BytesPerOp bytes = bytes_in_tier(seconds_, real_, more_seconds);
    for (std::int64_t& r : bytes) {
      r = std::max<std::int64_t>(
          0, static_cast<std::int64_t>(static_cast<double>(r) * share - slack * typical_));
    }
    return bytes;
  }

  // For each slack from the whole room down, until no op has to wait for what is copied; the last
  // room that was too much is then cut where it was.
  void explore() {
    SearchEffort quick = effort_;
    quick.level = SearchEffort::Level::quick;
    for (const double slack : {0.0, 0.5, 1.0, 2.0}) {
      for (const double share : {1.0, 0.95, 0.9, 0.8, 0.7, 0.55, 0.4, 0.2}) {
        const BytesPerOp bytes = bytes_of(share, slack, 0);
        const auto found = attempt(bytes, quick, {});
        if (is_free()) return;
        if (!found) continue;
        if (found->fits && found->stalled_nanoseconds == 0) break;
        cut(bytes, *found, quick, {}, kCuts);
      }
    }
    if (best_) return;
    const double base = static_cast<double>(step_.total_nanoseconds) * 1e-9;
    for (const double more : {0.1, 0.3, 1.0, 3.0}) {
      attempt(bytes_of(1, 0, more * base), quick, {});
      if (best_) break;
    }
  }

  // Takes from the room what the link could not carry, until it can.
  void cut(BytesPerOp bytes, CoveredSchedule found, const SearchEffort& effort,
           const Schedule& start, int rounds) {
    for (int round = 0; round < rounds; ++round) {
      if (found.fits && found.stalled_nanoseconds == 0) return;
      widen(found.over);
      for (std::size_t t = 0; t < bytes.size(); ++t) {
        bytes[t] = std::max<std::int64_t>(0, bytes[t] - found.over[t]);
      }
      auto next = attempt(bytes, effort, start);
      if (!next || is_free()) return;
      found = std::move(*next);
    }
  }

  // A little more room than the best had, again and again; then longer searches.
  void refine() {
    SearchEffort quick = effort_;
    quick.level = SearchEffort::Level::quick;
    enlarge(quick, kQuickRounds);
    if (is_free()) return;
    const std::vector<Trial> trials = good_;
    for (const Trial& trial : trials) {
      attempt(trial.bytes, effort_, trial.schedule);
      if (is_free()) return;
    }
    SearchEffort some = effort_;
    some.scale *= 0.3;
    enlarge(some, kSearchRounds);
  }

  void enlarge(const SearchEffort& effort, int rounds) {
    double more = 0.04;
    for (int round = 0; round < rounds && best_ && !best_bytes_.empty() && !is_free(); ++round) {
      BytesPerOp bytes = best_bytes_;
      for (std::int64_t& r : bytes) {
        r += static_cast<std::int64_t>(static_cast<double>(r) * more);
      }
      const std::int64_t before = best_->nanoseconds;
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

  std::optional<CoveredSchedule> attempt(const BytesPerOp& bytes, const SearchEffort& effort,
                                         const Schedule& start) {
    const RelaxedProblem relaxed = add_bytes(step_.problem, bytes, kLevels, Rounding::down);
    std::vector<Schedule> starts;
    if (!start.empty()) starts.push_back(into(relaxed, start));
    const auto found = search_schedule(
        relaxed.problem, limit_ - step_.problem.parameter_bytes + relaxed.most, 0, effort, starts);
    if (!found) return std::nullopt;
    Schedule schedule;
    for (const OpId op : *found) {
      if (relaxed.base_of[op] >= 0) schedule.push_back(relaxed.base_of[op]);
    }
    CoveredSchedule covered = cover_by_copies(step_, schedule, limit_, tier_, tries_);
    if (covered.fits) {
      good_.push_back({covered.nanoseconds, bytes, schedule});
      std::stable_sort(good_.begin(), good_.end(), [](const Trial& a, const Trial& b) {
        return a.nanoseconds < b.nanoseconds;
      });
      if (good_.size() > kGood) good_.pop_back();
    }
    if (covered.fits && (!best_ || std::tie(covered.nanoseconds, covered.swapped_bytes) <
                                       std::tie(best_->nanoseconds, best_->swapped_bytes))) {
      best_ = covered;
      best_bytes_ = bytes;
      best_schedule_ = std::move(schedule);
    }
    return covered;
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

  const RecordedStep& step_;
  const std::int64_t limit_;
  const Tier& tier_;
  Tier real_;
  const SearchEffort effort_;
  const int tries_;
  std::vector<double> seconds_;
  double typical_ = 0;
  std::optional<CoveredSchedule> best_;
  Schedule best_schedule_;
  BytesPerOp best_bytes_;
  std::vector<Trial> good_;  // the fastest
};

}  // namespace

std::optional<CoveredSchedule> search_copies(const RecordedStep& step, std::int64_t limit_bytes,
                                             const Tier& tier, const SearchEffort& effort,
                                             std::span<const OpId> recomputed) {
  return CopySearch(step, limit_bytes, tier, effort).run(recomputed);
}

}  // namespace plimsoll::planner
