// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remedies/swap_play.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/base/index.h"

namespace plimsoll::planner {
namespace {

class CopyPlayer {
 public:
  CopyPlayer(const SwapModel& model, std::span<const OpId> schedule, std::vector<AwayValue> away)
      : model_(model),
        problem_(model.problem()),
        schedule_(schedule),
        limit_(model.limit()),
        away_(std::move(away)),
        copies_(problem_.values.size()),
        liveness_(find_liveness(problem_, schedule)) {}

  CoveredSchedule run() {
    begin();
    const auto end = static_cast<std::int32_t>(schedule_.size());
    for (std::int32_t t = 0; t < end; ++t) {
      for (const MemorySpace tier : model_.used_tiers()) start_outs(tier, t);
      evict_copied_out(t);
      wait_for_room(t);
      for (const MemorySpace tier : model_.used_tiers()) start_ins(tier, t);
      wait_for_operands(t);
      write_over(t);
      execute(t);
    }
    for (const MemorySpace tier : kTiers) result_.tier_peak[tier] = links_[tier].most_bytes;
    result_.nanoseconds = now_;
    return std::move(result_);
  }

 private:
  // The copies of one value.
  struct Copies {
    bool leaving = false, on_tier = false;
    const SwapWay* way = nullptr;
    double out_end = 0;
    std::int32_t last_in = -1;  // position at which it comes back for the last time
  };
  struct Progress {
    bool gone = false, back = false;
    double in_end = 0;
  };
  // A tier's engines: the entries of away_ in the order of their copies, and which one is next.
  struct Link {
    std::vector<std::int32_t> outs, ins;
    std::size_t next_out = 0, next_in = 0;
    double out_free = 0, in_free = 0;
    std::int64_t bytes = 0, most_bytes = 0;
  };

  std::int64_t bytes(ValueId v) const { return problem_.values[v].bytes; }
  Copies& copies(std::int32_t i) { return copies_[away_[at(i)].idle.value]; }

  // Bytes are those of the schedule less what is away; they are kept up to date as it turns out
  // when that leaves and comes back.
  void begin() {
    evaluate(problem_, schedule_, &profile_);
    progress_.resize(away_.size());
    begins_.resize(schedule_.size() + 1);
    for (std::int32_t i = 0; i < std::ssize(away_); ++i) {
      const AwayValue& away = away_[at(i)];
      Link& link = links_[away.way->tier];
      ins_.push_back(i);
      if (std::isfinite(away.out_start)) link.outs.push_back(i);
      begins_[at(away.idle.from + 1)].push_back(i);
      copies(i).way = away.way;
      copies(i).last_in = std::max(copies(i).last_in, away.idle.to);
      add_bytes(away.first, away.idle.to, -bytes(away.idle.value));
    }
    std::stable_sort(ins_.begin(), ins_.end(), [&](std::int32_t a, std::int32_t b) {
      return std::pair(away_[at(a)].idle.to, away_[at(a)].in_start) <
             std::pair(away_[at(b)].idle.to, away_[at(b)].in_start);
    });
    for (const std::int32_t i : ins_) links_[away_[at(i)].way->tier].ins.push_back(i);
    for (const MemorySpace tier : model_.used_tiers()) {
      auto& outs = links_[tier].outs;
      std::stable_sort(outs.begin(), outs.end(), [&](std::int32_t a, std::int32_t b) {
        return away_[at(a)].out_start < away_[at(b)].out_start;
      });
    }
    find_stages();
    result_.over.assign(at(problem_.op_count()), 0);
    result_.fits = true;
  }

  // Per position, the op whose first run is there or comes next; and when everything starts if
  // nothing waits.
  void find_stages() {
    stage_.resize(schedule_.size());
    time_.assign(schedule_.size() + 1, 0);
    IdVector<OpId, char> seen(problem_.ops.size(), 0);
    std::vector<char> first(schedule_.size(), 0);
    for (std::size_t t = 0; t < schedule_.size(); ++t) {
      first[t] = !std::exchange(seen[schedule_[t]], 1);
      time_[t + 1] = time_[t] + model_.nanoseconds(schedule_[t]);
    }
    OpId next = problem_.ops.end_id() - 1;
    for (std::size_t t = schedule_.size(); t-- > 0;) {
      if (first[t]) next = schedule_[t];
      stage_[t] = next;
    }
  }

  void act(SwapAction::Kind kind, ValueId v) {
    result_.actions.push_back({kind, OpId(), v, copies_[v].way});
  }
  void add_bytes(std::int32_t first, std::int32_t end, std::int64_t size) {
    for (std::int32_t t = first; t < end; ++t) profile_[at(t)] += size;
  }
  void note_over(std::int32_t t, std::int64_t size) {
    std::int64_t& most = result_.over[at(stage_[at(t)])];
    most = std::max(most, size);
  }

  void wait_until(double end, std::int32_t t, MemorySpace tier) {
    if (end <= now_) return;
    // What should have been elsewhere already, or not at all.
    note_over(t, static_cast<std::int64_t>((end - now_) * 1e-9 *
                                           model_.tiers()[tier].out_bytes_per_second));
    result_.stalled += end - now_;
    now_ = end;
  }

  // Compute steps lose time to it at once; see simulate().
  // When it ends.
  double start_copy(double lasts, double taken, double& engine) {
    const double start = now_;
    now_ += taken;
    if (lasts == 0) return now_;  // synchronous
    engine = std::max(start, engine) + lasts;
    return engine;
  }

  void start_outs(MemorySpace tier, std::int32_t t) {
    Link& link = links_[tier];
    for (; link.next_out < link.outs.size(); ++link.next_out) {
      const AwayValue& away = away_[at(link.outs[link.next_out])];
      const ValueId v = away.idle.value;
      if (away.idle.to <= t) continue;  // too late
      if (away.idle.made >= t || link.bytes + away.way->bytes > model_.tiers()[tier].bytes) return;
      act(SwapAction::Kind::copy_out, v);
      copies_[v].out_end = start_copy(away.way->out, away.way->out_taken, link.out_free);
      copies_[v].leaving = true;
      link.bytes += away.way->bytes;
      link.most_bytes = std::max(link.most_bytes, link.bytes);
      result_.swapped_bytes += bytes(v);
    }
  }

  void finish_out(ValueId v, std::int32_t t) {
    wait_until(copies_[v].out_end, t, copies_[v].way->tier);
    act(SwapAction::Kind::wait, v);
    copies_[v].leaving = false;
    copies_[v].on_tier = true;
  }

  void evict(std::int32_t i, std::int32_t t) {
    AwayValue& away = away_[at(i)];
    if (copies(i).leaving) finish_out(away.idle.value, t);
    act(SwapAction::Kind::evict, away.idle.value);
    progress_[at(i)].gone = true;
    add_bytes(t, away.first, -bytes(away.idle.value));
    away.first = t;
  }

  void evict_copied_out(std::int32_t t) {
    open_.insert(open_.end(), begins_[at(t)].begin(), begins_[at(t)].end());
    const double late = now_ - time_[at(t)];
    std::size_t kept = 0;
    for (const std::int32_t i : open_) {
      AwayValue& away = away_[at(i)];
      if (away.idle.to <= t) continue;  // it was never away
      const Copies& copy = copies(i);
      if (copy.on_tier || (copy.leaving && copy.out_end <= now_)) {
        evict(i, t);
        continue;
      }
      if (away.first <= t) {
        const double end = copy.leaving ? copy.out_end - late : 0;
        const auto found = std::lower_bound(time_.begin(), time_.end(), end) - time_.begin();
        const std::int32_t first =
            std::min(away.idle.to, std::max(t + 1, static_cast<std::int32_t>(found)));
        add_bytes(away.first, first, bytes(away.idle.value));
        away.first = first;
      }
      open_[kept++] = i;
    }
    open_.resize(kept);
  }

  // What leaves first is waited for first.
  void wait_for_room(std::int32_t t) {
    while (profile_[at(t)] > limit_) {
      std::int32_t best = -1;
      for (const std::int32_t i : open_) {
        if (!copies(i).leaving) continue;
        if (best < 0 || copies(i).out_end < copies(best).out_end) best = i;
      }
      if (best < 0) return;
      evict(best, t);
      std::erase(open_, best);
    }
  }

  bool fits(std::int32_t t, std::int32_t end, std::int64_t size) const {
    return std::all_of(profile_.begin() + t, profile_.begin() + end,
                       [&](std::int64_t here) { return here + size <= limit_; });
  }

  void start_ins(MemorySpace tier, std::int32_t t) {
    Link& link = links_[tier];
    for (; link.next_in < link.ins.size(); ++link.next_in) {
      const std::int32_t i = link.ins[link.next_in];
      const IdleValue& idle = away_[at(i)].idle;
      Progress& progress = progress_[at(i)];
      if (!progress.gone) {
        if (idle.to > t) return;
        continue;  // it was never away
      }
      const SwapWay& way = *away_[at(i)].way;
      if (way.in == 0 && idle.to > t) return;  // in time, as it is synchronous
      const std::int64_t size = bytes(idle.value);
      if (!fits(t, idle.to, size)) return;
      act(SwapAction::Kind::copy_in, idle.value);
      progress.in_end = start_copy(way.in, way.in_taken, link.in_free);
      progress.back = true;
      add_bytes(t, idle.to, size);
    }
  }

  void wait_for_operands(std::int32_t t) {
    auto it = std::lower_bound(ins_.begin(), ins_.end(), t, [&](std::int32_t i, std::int32_t when) {
      return away_[at(i)].idle.to < when;
    });
    for (; it != ins_.end() && away_[at(*it)].idle.to == t; ++it) {
      if (!progress_[at(*it)].back) continue;
      const AwayValue& away = away_[at(*it)];
      const ValueId v = away.idle.value;
      wait_until(progress_[at(*it)].in_end, t, away.way->tier);
      act(SwapAction::Kind::wait, v);
      if (copies_[v].last_in == t) links_[away.way->tier].bytes -= away.way->bytes;
    }
    // What is written over must have left.
    for (const Reuse& reuse : problem_.reuse[schedule_[at(t)]]) {
      if (copies_[reuse.input].leaving && dies(t, reuse.input)) finish_out(reuse.input, t);
    }
  }

  bool dies(std::int32_t t, ValueId v) const {
    const auto reads = problem_.reads[schedule_[at(t)]];
    const auto found = std::find(reads.begin(), reads.end(), v);
    return found != reads.end() &&
           liveness_.dies[at(liveness_.first_read[at(t)] + (found - reads.begin()))];
  }

  // What has left by now, or must, makes place for a result at once.
  void write_over(std::int32_t t) {
    for (const std::int32_t i : begins_[at(t + 1)]) {
      const IdleValue& idle = away_[at(i)].idle;
      const Copies& copy = copies(i);
      if (idle.written_over == 0 || !(copy.on_tier || copy.leaving)) continue;
      if (copy.leaving) {
        if (copy.out_end > now_ && profile_[at(t)] <= limit_) continue;
        finish_out(idle.value, t);
      }
      profile_[at(t)] -= idle.written_over;
    }
  }

  void execute(std::int32_t t) {
    const std::int64_t here = profile_[at(t)];
    if (here > limit_) {
      result_.fits = false;
      result_.most_over = std::max(result_.most_over, here - limit_);
      note_over(t, here - limit_);
    }
    result_.peak_bytes = std::max(result_.peak_bytes, here);
    const OpId op = schedule_[at(t)];
    result_.actions.push_back({SwapAction::Kind::run, op, ValueId(), nullptr});
    now_ += model_.nanoseconds(op);
    for (const ValueId v : dead_after(problem_, schedule_, liveness_, at(t))) {
      if (!problem_.in_arena(v)) continue;
      if (copies_[v].leaving) finish_out(v, t);
      act(SwapAction::Kind::evict, v);
    }
  }

  const SwapModel& model_;
  const Problem& problem_;
  const std::span<const OpId> schedule_;
  const std::int64_t limit_;  // of the arena
  std::vector<AwayValue> away_;
  std::vector<Progress> progress_;    // per entry of away_
  IdVector<ValueId, Copies> copies_;  // per value
  const Liveness liveness_;
  std::vector<std::int64_t> profile_;  // per position
  std::vector<double> time_;
  std::vector<OpId> stage_;
  PerTier<Link> links_;
  std::vector<std::int32_t> ins_;                  // by when they must be back
  std::vector<std::vector<std::int32_t>> begins_;  // per position, what begins to be idle
  std::vector<std::int32_t> open_;                 // idle, still in memory
  double now_ = 0;
  CoveredSchedule result_;
};

}  // namespace

CoveredSchedule play_copies(const SwapModel& model, std::span<const OpId> schedule,
                            std::vector<AwayValue> away) {
  return CopyPlayer(model, schedule, std::move(away)).run();
}

}  // namespace plimsoll::planner
