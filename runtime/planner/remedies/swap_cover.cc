// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remedies/swap_cover.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <set>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/base/random_bits.h"
#include "runtime/planner/remedies/engine_slots.h"

namespace plimsoll::planner {
namespace {

// What its author wants swapped goes first.
constexpr double kAskedFor = 1e6;

// Tiers of so many bytes are never full.
constexpr std::int64_t kPlenty = std::int64_t{1} << 60;

class Cover {
 public:
  Cover(const SwapModel& model, std::span<const OpId> schedule, bool may_hurry)
      : model_(model),
        problem_(model.problem()),
        schedule_(schedule),
        limit_(model.limit()),
        may_hurry_(may_hurry) {}

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
      CoveredSchedule played = play_copies(model_, schedule_, chosen());
      if (i == 0 || played.before(best)) best = std::move(played);
      if (best.fits && best.stalled == 0) break;
    }
    return best;
  }

 private:
  std::int32_t length() const { return static_cast<std::int32_t>(schedule_.size()); }
  std::int64_t bytes(ValueId v) const { return problem_.values[v].bytes; }
  bool is_limited(MemorySpace tier) const { return model_.tiers()[tier].bytes < kPlenty; }

  void begin() {
    for (const MemorySpace tier : kTiers) links_[tier] = {};
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
        if (model_.ways(v).empty()) continue;
        Seen& s = seen[v];
        if (s.made < 0) continue;
        if (t > s.last + 1) idle_.push_back({v, s.made, s.last, t, 0});
        s.last = t;
      }
      for (const ValueId v : problem_.outputs[schedule_[at(t)]]) {
        if (v >= 0) seen[v] = {t, t};
      }
    }
    find_written_over();
  }

  // The results that could be written over idle values, each of them over one.
  void find_written_over() {
    const Liveness liveness = find_liveness(problem_, schedule_);
    std::vector<Reuse> taken;
    std::set<std::pair<std::int32_t, ValueId>> claimed;
    for (IdleValue& idle : idle_) {
      const OpId op = schedule_[at(idle.from)];
      for (const Reuse& reuse : problem_.reuse[op]) {
        if (reuse.input != idle.value || !problem_.in_arena(reuse.output)) continue;
        const std::span<const char> dies(liveness.dies.data() + liveness.first_read[at(idle.from)],
                                         problem_.reads[op].size());
        match_in_place(problem_, op, dies, taken);
        const bool is_taken = std::any_of(taken.begin(), taken.end(), [&](const Reuse& other) {
          return other.output == reuse.output;
        });
        if (is_taken || !claimed.emplace(idle.from, reuse.output).second) continue;
        idle.written_over = bytes(reuse.output);
        break;
      }
    }
  }

  void find_times() {
    time_.assign(schedule_.size() + 1, 0);
    for (std::size_t t = 0; t < schedule_.size(); ++t) {
      time_[t + 1] = time_[t] + model_.nanoseconds(schedule_[t]);
    }
    // Positions that take no time count a little, too.
    const double least = 0.1 * time_.back() / static_cast<double>(length());
    weight_.resize(schedule_.size());
    for (std::size_t t = 0; t < weight_.size(); ++t) {
      weight_[t] = time_[t + 1] - time_[t] + least;
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

  // How a value could be away.
  struct Away {
    double score = -1;
    const SwapWay* way = nullptr;
    double out_start = kInfinite, in_start = 0;  // kInfinite: it was copied out before
    bool urgent = false;                         // the copy out is waited for
    bool writes_over = false;                    // IdleValue::written_over counts
    std::int32_t first = 0, last = -1;           // not in memory at these positions
  };

  // By the best way; by that of its copy out where there is one.
  Away look(std::int32_t i, bool waiting) const {
    Away best;
    const Planned& planned = planned_[idle_[at(i)].value];
    for (const SwapWay& way : model_.ways(idle_[at(i)].value)) {
      if (planned.way != nullptr && planned.way != &way) continue;
      const Away away = look(i, way, waiting);
      if (away.score > best.score) best = away;
    }
    return best;
  }

  Away look(std::int32_t i, const SwapWay& way, bool waiting) const {
    const IdleValue& idle = idle_[at(i)];
    const Link& link = links_[way.tier];
    Away away;
    away.way = &way;
    double cost = way.in + way.in_taken;
    double gone = 0;
    const Planned& planned = planned_[idle.value];
    if (planned.way != nullptr) {
      if (planned.made > idle.made) return away;
      gone = planned.end;
    } else {
      away.out_start = link.out.first_fit(time_[at(idle.made + 1)], way.out);
      gone = away.out_start + way.out;
      cost += way.out + way.out_taken;
    }
    const double until = time_[at(idle.to)];
    away.first = std::max(idle.from + 1, first_from(gone));
    if (away.first >= idle.to) {
      if (!waiting || (planned.way != nullptr && !may_hurry_)) return away;
      away.urgent = may_hurry_;
      away.first = idle.from + 1;
    }
    away.in_start = link.in.last_fit(time_[at(away.first)], until, way.in);
    away.last = idle.to - 1;
    if (away.in_start < 0) {
      if (!waiting) return away;
    } else {
      away.last = last_by(away.in_start) - 1;
    }
    double covered = 0;
    away.writes_over = away.urgent || gone <= time_[at(idle.from)];
    if (away.writes_over) covered += covers(idle.from, idle.written_over);
    for (std::int32_t t = away.first; t <= away.last; ++t) {
      covered += covers(t, bytes(idle.value));
    }
    if (covered == 0) return away;
    if (is_limited(way.tier)) {
      const std::int64_t size = model_.tiers()[way.tier].bytes - way.bytes;
      const std::int32_t from = away.out_start < kInfinite ? last_by(away.out_start) : idle.from;
      for (std::int32_t t = std::max(0, from); t <= idle.to; ++t) {
        if (link.bytes[at(t)] > size) return away;
      }
    }
    away.score = factor_[at(i)] * covered / cost;
    if (problem_.values[idle.value].hint == Hint::swap) away.score *= kAskedFor;
    return away;
  }

  double covers(std::int32_t t, std::int64_t size) const {
    const std::int64_t over = std::min(size, over_[at(t)]);
    return over > 0 ? static_cast<double>(over) * weight_[at(t)] : 0;
  }

  void choose() {
    over_.resize(schedule_.size());
    for (std::size_t t = 0; t < over_.size(); ++t) {
      over_[t] = std::max<std::int64_t>(0, profile_[t] - limit_);
    }
    planned_.assign(problem_.values.size(), {});
    away_.assign(idle_.size(), {});
    for (const MemorySpace tier : model_.used_tiers()) {
      if (is_limited(tier)) links_[tier].bytes.assign(schedule_.size() + 1, 0);
    }
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
      const IdleValue& idle = idle_[at(i)];
      const Away away = look(i, waiting);
      if (away.score <= 0) continue;
      if (!queue.empty() && away.score < queue.top().first) {
        queue.push({away.score, negative});
        continue;
      }
      take(i, idle, away);
    }
  }

  void take(std::int32_t i, const IdleValue& idle, const Away& away) {
    chosen_[at(i)] = 1;
    away_[at(i)] = away;
    const SwapWay& way = *away.way;
    Link& link = links_[way.tier];
    std::int32_t from = idle.from;
    if (away.out_start < kInfinite) {
      link.out.take(away.out_start, way.out);
      planned_[idle.value] = {&way, i, idle.made, away.out_start + way.out};
      from = last_by(away.out_start);
    }
    if (away.urgent) {
      double& start = away_[at(planned_[idle.value].by)].out_start;
      start = std::min(start, time_[at(idle.from + 1)]);
    }
    if (away.in_start >= 0) link.in.take(away.in_start, way.in);
    if (is_limited(way.tier)) {
      for (std::int32_t t = std::max(0, from); t <= idle.to; ++t) link.bytes[at(t)] += way.bytes;
    }
    if (away.writes_over) over_[at(idle.from)] -= idle.written_over;
    for (std::int32_t t = away.first; t <= away.last; ++t) over_[at(t)] -= bytes(idle.value);
  }

  std::vector<AwayValue> chosen() const {
    std::vector<AwayValue> result;
    for (std::size_t i = 0; i < idle_.size(); ++i) {
      if (!chosen_[i]) continue;
      const Away& away = away_[i];
      result.push_back({idle_[i], away.way, away.first, away.out_start, away.in_start});
    }
    return result;
  }

  // The copy out of a value, if there is to be one.
  struct Planned {
    const SwapWay* way = nullptr;
    std::int32_t by = -1, made = -1;  // the entry of away_ that brings it
    double end = 0;
  };
  struct Link {
    EngineSlots out, in;
    std::vector<std::int64_t> bytes;  // on the tier, per position; only where that is limited
  };

  const SwapModel& model_;
  const Problem& problem_;
  const std::span<const OpId> schedule_;
  const std::int64_t limit_;
  const bool may_hurry_;
  std::vector<std::int64_t> profile_, over_;
  std::vector<IdleValue> idle_;
  std::vector<Away> away_;              // per idle
  std::vector<char> chosen_;            // per idle
  IdVector<ValueId, Planned> planned_;  // per value
  std::vector<double> time_, weight_;
  PerTier<Link> links_;
  RandomBits random_{0};
  double spread_ = 0;
  std::vector<double> factor_;  // per idle, of its score
};

}  // namespace

CoveredSchedule cover_by_copies(const SwapModel& model, std::span<const OpId> schedule, int tries,
                                bool may_hurry) {
  return Cover(model, schedule, may_hurry).run(tries);
}

}  // namespace plimsoll::planner
