// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/recorded/recorded_swap_cover.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/base/random_bits.h"
#include "runtime/planner/remedies/engine_slots.h"

namespace plimsoll::planner {
namespace {

constexpr double kNowhere = std::numeric_limits<double>::infinity();

// Tiers of so many bytes are never full.
constexpr std::int64_t kPlenty = std::int64_t{1} << 60;

class Cover {
 public:
  Cover(const RecordedStep& step, std::span<const OpId> schedule, std::int64_t limit,
        const Tier& tier)
      : step_(step),
        problem_(step.problem),
        schedule_(schedule),
        limit_(limit - step.problem.parameter_bytes),
        tier_(tier) {}

  CoveredSchedule run(int tries) {
    evaluate(problem_, schedule_, &profile_);
    list_idle();
    find_times();
    CoveredSchedule best;
    for (int i = 0; i < tries; ++i) {
      random_ = RandomBits(static_cast<std::uint64_t>(i));
      spread_ = i == 0 ? 0 : 0.5;
      begin();
      choose();
      CoveredSchedule played =
          play_copies(step_, schedule_, limit_ + problem_.parameter_bytes, tier_, chosen());
      if (i == 0 || played.before(best)) best = std::move(played);
      if (best.fits && best.stalled_nanoseconds == 0) break;
    }
    return best;
  }

 private:
  std::int32_t length() const { return static_cast<std::int32_t>(schedule_.size()); }
  std::int64_t bytes(ValueId v) const { return problem_.values[v].bytes; }
  std::int64_t op_nanoseconds(OpId op) const {
    return step_.is_recorded(op) ? step_.nanoseconds[op] : 0;
  }
  std::int64_t out_nanoseconds(ValueId v) const {
    return copy_nanoseconds(bytes(v), tier_.out_bytes_per_second, tier_);
  }
  std::int64_t in_nanoseconds(ValueId v) const {
    return copy_nanoseconds(bytes(v), tier_.in_bytes_per_second, tier_);
  }

  void begin() {
    out_ = in_ = {};
    factor_.assign(idle_.size(), 1);
    for (double& f : factor_) f += spread_ * random_.unit();
  }

  void list_idle() {
    struct Seen {
      std::int32_t made = -1, last = -1;
    };
    IdVector<ValueId, Seen> seen(problem_.values.size());
    for (std::int32_t t = 0; t < length(); ++t) {
      for (const ValueId v : problem_.reads[schedule_[at(t)]]) {
        if (!problem_.in_arena(v) || bytes(v) == 0) continue;
        Seen& s = seen[v];
        if (s.made < 0) continue;
        if (t > s.last + 1) idle_.push_back({v, s.made, s.last, t});
        s.last = t;
      }
      for (const ValueId v : problem_.outputs[schedule_[at(t)]]) {
        if (v >= 0 && problem_.in_arena(v) && bytes(v) > 0) seen[v] = {t, t};
      }
    }
  }

  void find_times() {
    time_.assign(schedule_.size() + 1, 0);
    for (std::size_t t = 0; t < schedule_.size(); ++t) {
      time_[t + 1] = time_[t] + static_cast<double>(op_nanoseconds(schedule_[t]));
    }
  }
  std::int32_t first_from(double time) const {
    return static_cast<std::int32_t>(std::lower_bound(time_.begin(), time_.end(), time) -
                                     time_.begin());
  }
  std::int32_t last_by(double time) const {
    return static_cast<std::int32_t>(std::upper_bound(time_.begin(), time_.end(), time) -
                                     time_.begin()) -
           1;
  }

  // How a storage could be away.
  struct Away {
    double score = -1;
    double out_start = kNowhere, in_start = 0;  // kNowhere: it was copied out before
    std::int32_t first = 0, last = -1;          // not in memory at these positions
  };

  Away look(std::int32_t i, bool waiting) const {
    const IdleStorage& idle = idle_[at(i)];
    Away away;
    const double out_seconds = static_cast<double>(out_nanoseconds(idle.value));
    const double in_seconds = static_cast<double>(in_nanoseconds(idle.value));
    double cost = in_seconds;
    double gone = 0;
    const Planned& planned = planned_[idle.value];
    if (planned.end >= 0) {
      if (planned.made > idle.made) return away;
      gone = planned.end;
    } else {
      away.out_start = out_.first_fit(time_[at(idle.made + 1)], out_seconds);
      gone = away.out_start + out_seconds;
      cost += out_seconds;
    }
    const double until = time_[at(idle.to)];
    away.first = std::max(idle.from + 1, first_from(gone));
    if (away.first >= idle.to) {
      if (!waiting || planned.end >= 0) return away;
      away.first = idle.from + 1;
    }
    away.in_start = in_.last_fit(time_[at(away.first)], until, in_seconds);
    away.last = idle.to - 1;
    if (away.in_start < 0) {
      if (!waiting) return away;
    } else {
      away.last = last_by(away.in_start) - 1;
    }
    double covered = 0;
    std::int64_t tier_free = tier_.bytes;
    for (std::int32_t t = away.first; t <= away.last; ++t) {
      const std::int64_t over = std::min(bytes(idle.value), over_[at(t)]);
      if (over > 0) covered += static_cast<double>(over) * weight(t);
    }
    if (covered == 0) return away;
    if (tier_.bytes < kPlenty) {
      const std::int32_t from = away.out_start < kNowhere ? last_by(away.out_start) : idle.from;
      for (std::int32_t t = std::max(0, from); t <= idle.to; ++t) {
        tier_free = std::min(tier_free, tier_.bytes - in_tier_[at(t)]);
      }
      if (tier_free < bytes(idle.value)) return away;
    }
    away.score = factor_[at(i)] * covered / cost;
    return away;
  }

  // Positions that take no time count a little, too.
  double weight(std::int32_t t) const {
    return time_[at(t + 1)] - time_[at(t)] + 0.1 * time_.back() / static_cast<double>(length());
  }

  void choose() {
    over_.resize(schedule_.size());
    for (std::size_t t = 0; t < over_.size(); ++t) {
      over_[t] = std::max<std::int64_t>(0, profile_[t] - limit_);
    }
    planned_.assign(problem_.values.size(), {});
    away_.assign(idle_.size(), {});
    in_tier_.assign(schedule_.size() + 1, 0);
    chosen_.assign(idle_.size(), 0);
    for (const bool waiting : {false, true}) choose(waiting);
  }

  void choose(bool waiting) {
    std::priority_queue<std::pair<double, std::int32_t>> queue;
    for (std::int32_t i = 0; i < std::ssize(idle_); ++i) {
      if (chosen_[at(i)]) continue;
      const Away away = look(i, waiting);
      if (away.score > 0) queue.push({away.score, -i});
    }
    while (!queue.empty()) {
      const auto [score, negative] = queue.top();
      queue.pop();
      const std::int32_t i = -negative;
      const IdleStorage& idle = idle_[at(i)];
      const Away away = look(i, waiting);
      if (away.score <= 0) continue;
      if (!queue.empty() && away.score < queue.top().first) {
        queue.push({away.score, negative});
        continue;
      }
      take(i, idle, away);
    }
  }

  void take(std::int32_t i, const IdleStorage& idle, const Away& away) {
    chosen_[at(i)] = 1;
    away_[at(i)] = away;
    Planned& planned = planned_[idle.value];
    std::int32_t from = idle.from;
    if (away.out_start < kNowhere) {
      const auto lasts = static_cast<double>(out_nanoseconds(idle.value));
      out_.take(away.out_start, lasts);
      planned = {idle.made, away.out_start, away.out_start + lasts};
      from = last_by(away.out_start);
    }
    if (away.in_start >= 0) {
      in_.take(away.in_start, static_cast<double>(in_nanoseconds(idle.value)));
    }
    if (tier_.bytes < kPlenty) {
      for (std::int32_t t = std::max(0, from); t <= idle.to; ++t) {
        in_tier_[at(t)] += bytes(idle.value);
      }
    }
    for (std::int32_t t = away.first; t <= away.last; ++t) over_[at(t)] -= bytes(idle.value);
  }

  std::vector<AwayStorage> chosen() const {
    std::vector<AwayStorage> result;
    for (std::size_t i = 0; i < idle_.size(); ++i) {
      if (!chosen_[i]) continue;
      result.push_back({idle_[i], away_[i].first, away_[i].out_start, away_[i].in_start});
    }
    return result;
  }

  struct Planned {
    std::int32_t made = -1;
    double start = -1, end = -1;
  };

  const RecordedStep& step_;
  const Problem& problem_;
  const std::span<const OpId> schedule_;
  const std::int64_t limit_;
  const Tier& tier_;
  std::vector<std::int64_t> profile_, over_, in_tier_;
  std::vector<IdleStorage> idle_;
  std::vector<Away> away_;              // per idle
  std::vector<char> chosen_;            // per idle
  IdVector<ValueId, Planned> planned_;  // per value
  std::vector<double> time_;
  EngineSlots out_, in_;
  RandomBits random_{0};
  double spread_ = 0;
  std::vector<double> factor_;  // per idle, of its score
};

}  // namespace

CoveredSchedule cover_by_copies(const RecordedStep& step, std::span<const OpId> schedule,
                                std::int64_t limit_bytes, const Tier& tier, int tries) {
  return Cover(step, schedule, limit_bytes, tier).run(tries);
}

}  // namespace plimsoll::planner
