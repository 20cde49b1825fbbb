// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/recorded/recorded_swap_play.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/base/index.h"

namespace plimsoll::planner {
namespace {

class CopyPlayer {
 public:
  CopyPlayer(const RecordedStep& step, std::span<const OpId> schedule, std::int64_t limit,
             const Tier& tier, std::vector<AwayStorage> away)
      : step_(step),
        problem_(step.problem),
        schedule_(schedule),
        limit_(limit - step.problem.parameter_bytes),
        tier_(tier),
        away_(std::move(away)),
        storages_(step.problem.values.size()),
        liveness_(find_liveness(step.problem, schedule)) {}

  CoveredSchedule run() {
    begin();
    const auto end = static_cast<std::int32_t>(schedule_.size());
    for (std::int32_t t = 0; t < end; ++t) {
      start_outs(t);
      free_copied_out(t);
      wait_for_room(t);
      start_ins(t);
      wait_for_operands(t);
      execute(t);
    }
    result_.peak_bytes += problem_.parameter_bytes;
    result_.nanoseconds = now_;
    return std::move(result_);
  }

 private:
  struct Storage {
    bool leaving = false, on_tier = false;
    std::int64_t out_end = 0;
    std::int32_t last_in = -1;  // position at which it comes back for the last time
  };
  struct Progress {
    bool gone = false, back = false;
    std::int64_t in_end = 0;
  };

  std::int64_t bytes(ValueId v) const { return problem_.values[v].bytes; }
  Storage& storage(std::int32_t i) { return storages_[away_[at(i)].idle.value]; }

  // Bytes are those of the schedule less what is away; they are kept up to date as it turns out
  // when that leaves and comes back.
  void begin() {
    evaluate(problem_, schedule_, &profile_);
    progress_.resize(away_.size());
    begins_.resize(schedule_.size() + 1);
    for (std::int32_t i = 0; i < std::ssize(away_); ++i) {
      const AwayStorage& away = away_[at(i)];
      ins_.push_back(i);
      if (std::isfinite(away.out_start)) outs_.push_back(i);
      begins_[at(away.idle.from + 1)].push_back(i);
      storage(i).last_in = std::max(storage(i).last_in, away.idle.to);
      add_bytes(away.first, away.idle.to, -bytes(away.idle.value));
    }
    std::stable_sort(ins_.begin(), ins_.end(), [&](std::int32_t a, std::int32_t b) {
      return std::pair(away_[at(a)].idle.to, away_[at(a)].in_start) <
             std::pair(away_[at(b)].idle.to, away_[at(b)].in_start);
    });
    std::stable_sort(outs_.begin(), outs_.end(), [&](std::int32_t a, std::int32_t b) {
      return away_[at(a)].out_start < away_[at(b)].out_start;
    });
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
      time_[t + 1] = time_[t] + op_nanoseconds(schedule_[t]);
    }
    OpId next = problem_.ops.end_id() - 1;
    for (std::size_t t = schedule_.size(); t-- > 0;) {
      if (first[t]) next = schedule_[t];
      stage_[t] = next;
    }
  }

  std::int64_t op_nanoseconds(OpId op) const {
    return step_.is_recorded(op) ? step_.nanoseconds[op] : 0;
  }
  void act(CopyAction::Kind kind, auto target) {
    result_.actions.push_back({kind, target.value()});
  }
  void add_bytes(std::int32_t first, std::int32_t end, std::int64_t size) {
    for (std::int32_t t = first; t < end; ++t) profile_[at(t)] += size;
  }
  void note_over(std::int32_t t, std::int64_t size) {
    std::int64_t& most = result_.over[at(stage_[at(t)])];
    most = std::max(most, size);
  }

  void wait_until(std::int64_t end, std::int32_t t) {
    if (end <= now_) return;
    // What should have been elsewhere already, or not at all.
    note_over(t, static_cast<std::int64_t>(static_cast<double>(end - now_) * 1e-9 *
                                           tier_.out_bytes_per_second));
    result_.stalled_nanoseconds += end - now_;
    now_ = end;
  }

  void start_outs(std::int32_t t) {
    for (; next_out_ < outs_.size(); ++next_out_) {
      const IdleStorage& idle = away_[at(outs_[next_out_])].idle;
      if (idle.to <= t) continue;  // too late
      const std::int64_t size = bytes(idle.value);
      if (idle.made >= t || tier_bytes_ + size > tier_.bytes) return;
      act(CopyAction::Kind::copy_out, idle.value);
      out_free_ =
          std::max(now_, out_free_) + copy_nanoseconds(size, tier_.out_bytes_per_second, tier_);
      Storage& s = storages_[idle.value];
      s.out_end = out_free_;
      s.leaving = true;
      tier_bytes_ += size;
      result_.tier_peak_bytes = std::max(result_.tier_peak_bytes, tier_bytes_);
      result_.swapped_bytes += size;
    }
  }

  void finish_out(ValueId v, std::int32_t t) {
    wait_until(storages_[v].out_end, t);
    act(CopyAction::Kind::wait, v);
    storages_[v].leaving = false;
    storages_[v].on_tier = true;
  }

  void free_storage(std::int32_t i, std::int32_t t) {
    AwayStorage& away = away_[at(i)];
    if (storage(i).leaving) finish_out(away.idle.value, t);
    act(CopyAction::Kind::free, away.idle.value);
    progress_[at(i)].gone = true;
    add_bytes(t, away.first, -bytes(away.idle.value));
    away.first = t;
  }

  void free_copied_out(std::int32_t t) {
    open_.insert(open_.end(), begins_[at(t)].begin(), begins_[at(t)].end());
    const std::int64_t late = now_ - time_[at(t)];
    std::size_t kept = 0;
    for (const std::int32_t i : open_) {
      AwayStorage& away = away_[at(i)];
      if (away.idle.to <= t) continue;  // it was never away
      const Storage& s = storage(i);
      if (s.on_tier || (s.leaving && s.out_end <= now_)) {
        free_storage(i, t);
        continue;
      }
      if (away.first <= t) {
        const std::int64_t end = s.leaving ? s.out_end - late : 0;
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
        if (!storage(i).leaving) continue;
        if (best < 0 || storage(i).out_end < storage(best).out_end) best = i;
      }
      if (best < 0) return;
      free_storage(best, t);
      std::erase(open_, best);
    }
  }

  bool fits(std::int32_t t, std::int32_t end, std::int64_t size) const {
    return std::all_of(profile_.begin() + t, profile_.begin() + end,
                       [&](std::int64_t here) { return here + size <= limit_; });
  }

  void start_ins(std::int32_t t) {
    for (; next_in_ < ins_.size(); ++next_in_) {
      const std::int32_t i = ins_[next_in_];
      const IdleStorage& idle = away_[at(i)].idle;
      Progress& progress = progress_[at(i)];
      if (!progress.gone) {
        if (idle.to > t) return;
        continue;  // it was never away
      }
      const std::int64_t size = bytes(idle.value);
      if (!fits(t, idle.to, size)) return;
      act(CopyAction::Kind::copy_in, idle.value);
      in_free_ =
          std::max(now_, in_free_) + copy_nanoseconds(size, tier_.in_bytes_per_second, tier_);
      progress.in_end = in_free_;
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
      const ValueId v = away_[at(*it)].idle.value;
      wait_until(progress_[at(*it)].in_end, t);
      act(CopyAction::Kind::wait, v);
      if (storages_[v].last_in == t) tier_bytes_ -= bytes(v);
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
    if (!step_.is_recorded(op)) return;  // what is held stays
    act(CopyAction::Kind::run, op);
    now_ += op_nanoseconds(op);
    for (const ValueId v : dead_after(problem_, schedule_, liveness_, at(t))) {
      if (!step_.is_storage(v) || !problem_.in_arena(v)) continue;
      if (storages_[v].leaving) finish_out(v, t);
      act(CopyAction::Kind::free, v);
    }
  }

  const RecordedStep& step_;
  const Problem& problem_;
  const std::span<const OpId> schedule_;
  const std::int64_t limit_;  // of the arena
  const Tier& tier_;
  std::vector<AwayStorage> away_;
  std::vector<Progress> progress_;       // per entry of away_
  IdVector<ValueId, Storage> storages_;  // per value
  const Liveness liveness_;
  std::vector<std::int64_t> profile_, time_;  // per position
  std::vector<OpId> stage_;
  std::vector<std::int32_t> ins_, outs_;           // in order
  std::vector<std::vector<std::int32_t>> begins_;  // per position, what begins to be idle
  std::vector<std::int32_t> open_;                 // idle, still in memory
  std::size_t next_out_ = 0, next_in_ = 0;
  std::int64_t now_ = 0, out_free_ = 0, in_free_ = 0, tier_bytes_ = 0;
  CoveredSchedule result_;
};

}  // namespace

std::int64_t copy_nanoseconds(std::int64_t bytes, double bytes_per_second, const Tier& tier) {
  // So long that nobody wants it; sums of such times can still be counted.
  constexpr double kMost = 1e13;
  const double lasts =
      std::round(tier.latency_seconds * 1e9) +
      std::ceil(static_cast<double>(bytes) * 1e9 / std::max(1.0, bytes_per_second));
  return static_cast<std::int64_t>(std::min(kMost, lasts));
}

CoveredSchedule play_copies(const RecordedStep& step, std::span<const OpId> schedule,
                            std::int64_t limit_bytes, const Tier& tier,
                            std::vector<AwayStorage> away) {
  return CopyPlayer(step, schedule, limit_bytes, tier, std::move(away)).run();
}

}  // namespace plimsoll::planner
