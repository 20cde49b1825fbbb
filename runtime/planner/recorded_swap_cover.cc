// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/recorded_swap_cover.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <queue>

#include "runtime/planner/engine_slots.h"
#include "runtime/planner/random_bits.h"

namespace plimsoll::planner {
namespace {

constexpr double kNowhere = std::numeric_limits<double>::infinity();

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// A storage that lies idle: made at `made`, touched last at `from` and next at `to`.
struct Idle {
  ValueId value = -1;
  std::int32_t made = 0, from = 0, to = 0;
};

// A storage that is copied out: at `first` at the earliest, in memory until `left` as far as is
// known.
struct Out {
  ValueId value = -1;
  std::int32_t made = 0;
  double planned = 0;      // start
  std::int32_t idle = -1;  // the one that it is made for
};

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
    evaluate(problem_, schedule_, &base_profile_);
    list_idle();
    find_times();
    CoveredSchedule best;
    for (int i = 0; i < tries; ++i) {
      random_ = RandomBits(static_cast<std::uint64_t>(i));
      spread_ = i == 0 ? 0 : 0.5;
      begin();
      choose();
      play();
      if (i == 0 || result_.before(best)) best = std::move(result_);
      if (best.fits && best.stalled_nanoseconds == 0) break;
    }
    return best;
  }

 private:
  std::int32_t length() const { return static_cast<std::int32_t>(schedule_.size()); }
  std::int64_t bytes(ValueId v) const { return problem_.values[at(v)].bytes; }
  std::int64_t op_nanoseconds(OpId op) const {
    return op < step_.op_count ? step_.nanoseconds[at(op)] : 0;
  }
  std::int64_t copy_nanoseconds(std::int64_t size, double speed) const {
    return std::llround(tier_.latency_seconds * 1e9) +
           static_cast<std::int64_t>(std::ceil(static_cast<double>(size) * 1e9 / speed));
  }
  std::int64_t out_nanoseconds(ValueId v) const {
    return copy_nanoseconds(bytes(v), tier_.out_bytes_per_second);
  }
  std::int64_t in_nanoseconds(ValueId v) const {
    return copy_nanoseconds(bytes(v), tier_.in_bytes_per_second);
  }

  void begin() {
    result_ = {};
    profile_ = base_profile_;
    out_ = in_ = {};
    factor_.assign(idle_.size(), 1);
    for (double& f : factor_) f += spread_ * random_.unit();
  }

  void list_idle() {
    struct Seen {
      std::int32_t made = -1, last = -1;
    };
    std::vector<Seen> seen(problem_.values.size());
    for (std::int32_t t = 0; t < length(); ++t) {
      for (const ValueId v : problem_.reads[schedule_[at(t)]]) {
        if (!problem_.in_arena(v) || bytes(v) == 0) continue;
        Seen& s = seen[at(v)];
        if (s.made < 0) continue;
        if (t > s.last + 1) idle_.push_back({v, s.made, s.last, t});
        s.last = t;
      }
      for (const ValueId v : problem_.outputs[schedule_[at(t)]]) {
        if (v >= 0 && problem_.in_arena(v) && bytes(v) > 0) seen[at(v)] = {t, t};
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
    const Idle& idle = idle_[at(i)];
    Away away;
    const double out_seconds = static_cast<double>(out_nanoseconds(idle.value));
    const double in_seconds = static_cast<double>(in_nanoseconds(idle.value));
    double cost = in_seconds;
    double gone = 0;
    const Planned& planned = planned_[at(idle.value)];
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
      const Idle& idle = idle_[at(i)];
      const Away away = look(i, waiting);
      if (away.score <= 0) continue;
      if (!queue.empty() && away.score < queue.top().first) {
        queue.push({away.score, negative});
        continue;
      }
      take(i, idle, away);
    }
  }

  void take(std::int32_t i, const Idle& idle, const Away& away) {
    chosen_[at(i)] = 1;
    away_[at(i)] = away;
    Planned& planned = planned_[at(idle.value)];
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
    for (std::int32_t t = std::max(0, from); t <= idle.to; ++t) {
      in_tier_[at(t)] += bytes(idle.value);
    }
    for (std::int32_t t = away.first; t <= away.last; ++t) over_[at(t)] -= bytes(idle.value);
  }

  // The schedule as it will be: bytes are those of the schedule less what is away.
  void play() {
    const auto n = schedule_.size();
    std::vector<std::int32_t> ins;
    std::vector<std::int32_t> outs;
    std::vector<std::int32_t> last_in(problem_.values.size(), -1);  // position of the last return
    for (std::int32_t i = 0; i < std::ssize(idle_); ++i) {
      if (!chosen_[at(i)]) continue;
      const Idle& idle = idle_[at(i)];
      ins.push_back(i);
      if (away_[at(i)].out_start < kNowhere) outs.push_back(i);
      last_in[at(idle.value)] = std::max(last_in[at(idle.value)], idle.to);
      const std::int32_t first = away_[at(i)].first;
      for (std::int32_t t = first; t < idle.to; ++t) profile_[at(t)] -= bytes(idle.value);
    }
    std::stable_sort(ins.begin(), ins.end(), [&](std::int32_t a, std::int32_t b) {
      return std::pair(idle_[at(a)].to, away_[at(a)].in_start) <
             std::pair(idle_[at(b)].to, away_[at(b)].in_start);
    });
    std::stable_sort(outs.begin(), outs.end(), [&](std::int32_t a, std::int32_t b) {
      return away_[at(a)].out_start < away_[at(b)].out_start;
    });
    // By the position at which they begin to be idle.
    std::vector<std::vector<std::int32_t>> begins(n + 1);
    for (const std::int32_t i : ins) begins[at(idle_[at(i)].from + 1)].push_back(i);

    enum class State : char { there, asked, leaving, away, coming };
    std::vector<char> on_tier(problem_.values.size(), 0), leaving(problem_.values.size(), 0);
    std::vector<std::int64_t> out_end(problem_.values.size(), 0);
    std::vector<std::int64_t> in_end(idle_.size(), 0);
    std::vector<char> gone(idle_.size(), 0), back(idle_.size(), 0);
    std::vector<std::int32_t> open;  // idle, not gone yet
    std::int64_t now = 0, out_free = 0, in_free = 0, tier_bytes = 0;
    std::size_t next_out = 0, next_in = 0;
    result_.over.assign(at(problem_.op_count()), 0);
    result_.fits = true;
    const Liveness liveness = find_liveness(problem_, schedule_);
    const auto act = [&](CopyAction::Kind kind, std::int32_t target) {
      result_.actions.push_back({kind, target});
    };
    const auto add_profile = [&](std::int32_t first, std::int32_t last, std::int64_t size) {
      for (std::int32_t t = first; t < last; ++t) profile_[at(t)] += size;
    };
    const auto start_out = [&](std::int32_t i) {
      const ValueId v = idle_[at(i)].value;
      act(CopyAction::Kind::copy_out, v);
      out_free = std::max(now, out_free) + out_nanoseconds(v);
      out_end[at(v)] = out_free;
      leaving[at(v)] = 1;
      tier_bytes += bytes(v);
      result_.tier_peak_bytes = std::max(result_.tier_peak_bytes, tier_bytes);
      result_.swapped_bytes += bytes(v);
    };
    const auto wait_until = [&](std::int64_t end, std::int32_t t) {
      if (end <= now) return;
      // What would have had to be elsewhere already, or not at all.
      std::int64_t& most = result_.over[at(stage(t))];
      most = std::max(most, static_cast<std::int64_t>(static_cast<double>(end - now) * 1e-9 *
                                                      tier_.out_bytes_per_second));
      result_.stalled_nanoseconds += end - now;
      now = end;
    };
    const auto finish_out = [&](ValueId v, std::int32_t t) {
      wait_until(out_end[at(v)], t);
      act(CopyAction::Kind::wait, v);
      leaving[at(v)] = 0;
      on_tier[at(v)] = 1;
    };
    const auto let_go = [&](std::int32_t i, std::int32_t t) {
      const Idle& idle = idle_[at(i)];
      if (leaving[at(idle.value)]) finish_out(idle.value, t);
      act(CopyAction::Kind::free, idle.value);
      gone[at(i)] = 1;
      std::int32_t& first = away_[at(i)].first;
      if (first > t) add_profile(t, first, -bytes(idle.value));
      if (first < t) add_profile(first, t, bytes(idle.value));
      first = t;
    };
    const auto fits_from = [&](std::int32_t t, std::int32_t to, std::int64_t size) {
      for (std::int32_t k = to - 1; k >= t; --k) {
        if (profile_[at(k)] + size > limit_) return false;
      }
      return true;
    };
    for (std::int32_t t = 0; t < length(); ++t) {
      for (const std::int32_t i : begins[at(t)]) open.push_back(i);
      // Copies out start in the order planned, as soon as there is something to copy.
      while (next_out < outs.size()) {
        const std::int32_t i = outs[next_out];
        const ValueId v = idle_[at(i)].value;
        if (idle_[at(i)].to <= t) {
          ++next_out;  // too late
          continue;
        }
        if (idle_[at(i)].made >= t || tier_bytes + bytes(v) > tier_.bytes) break;
        start_out(i);
        ++next_out;
      }
      const double late = static_cast<double>(now) - time_[at(t)];
      std::size_t kept = 0;
      for (const std::int32_t i : open) {
        const Idle& idle = idle_[at(i)];
        if (idle.to <= t) continue;  // it was never away
        const ValueId v = idle.value;
        if (on_tier[at(v)] || (leaving[at(v)] && out_end[at(v)] <= now)) {
          let_go(i, t);
          continue;
        }
        std::int32_t& first = away_[at(i)].first;
        if (first <= t) {
          const double end = leaving[at(v)] ? static_cast<double>(out_end[at(v)]) - late : 0;
          const std::int32_t next = std::min(idle.to, std::max(t + 1, first_from(end)));
          add_profile(first, next, bytes(v));
          first = next;
        }
        open[kept++] = i;
      }
      open.resize(kept);
      const auto force = [&](std::int64_t more) {
        // What leaves first is waited for first.
        while (profile_[at(t)] + more > limit_) {
          std::int32_t best = -1;
          for (const std::int32_t i : open) {
            const ValueId v = idle_[at(i)].value;
            if (gone[at(i)] || !leaving[at(v)]) continue;
            if (best < 0 || out_end[at(v)] < out_end[at(idle_[at(best)].value)]) best = i;
          }
          if (best < 0) return;
          let_go(best, t);
          std::erase(open, best);
        }
      };
      force(0);
      while (next_in < ins.size()) {
        const std::int32_t i = ins[next_in];
        const Idle& idle = idle_[at(i)];
        const ValueId v = idle.value;
        if (idle.to < t || (idle.to == t && !gone[at(i)])) {
          ++next_in;  // it was never away
          continue;
        }
        if (!gone[at(i)]) break;
        if (idle.to > t && !fits_from(t, idle.to, bytes(v))) break;
        act(CopyAction::Kind::copy_in, v);
        in_free = std::max(now, in_free) + in_nanoseconds(v);
        in_end[at(i)] = in_free;
        add_profile(t, idle.to, bytes(v));
        back[at(i)] = 1;
        ++next_in;
      }
      for (const ValueId v : touched(t)) {
        for (std::int32_t i = first_in_at(ins, t, v); i >= 0; i = -1) {
          if (!back[at(i)]) continue;
          wait_until(in_end[at(i)], t);
          act(CopyAction::Kind::wait, v);
          if (last_in[at(v)] == t) {
            tier_bytes -= bytes(v);
          }
        }
        // A copy out that nobody profits from ends before its storage is touched by a making.
      }
      const OpId op = schedule_[at(t)];
      const std::int64_t over = profile_[at(t)] - limit_;
      if (over > 0) {
        result_.fits = false;
        std::int64_t& most = result_.over[at(stage(t))];
        most = std::max(most, over);
        result_.most_over = std::max(result_.most_over, over);
      }
      result_.peak_bytes = std::max(result_.peak_bytes, profile_[at(t)]);
      if (op == step_.op_count) continue;  // what is held stays
      act(CopyAction::Kind::run, op);
      now += op_nanoseconds(op);
      for (const ValueId v : dead_after(problem_, schedule_, liveness, at(t))) {
        if (v >= step_.storage_count || !problem_.in_arena(v)) continue;
        if (leaving[at(v)]) finish_out(v, t);
        act(CopyAction::Kind::free, v);
      }
    }
    result_.peak_bytes += problem_.parameter_bytes;
    result_.nanoseconds = now;
  }

  std::span<const std::int32_t> touched(std::int32_t t) const {
    return problem_.reads[schedule_[at(t)]];
  }

  // The copy in of `v` that is wanted at `t`.
  std::int32_t first_in_at(const std::vector<std::int32_t>& ins, std::int32_t t, ValueId v) const {
    auto it = std::lower_bound(ins.begin(), ins.end(), t, [&](std::int32_t i, std::int32_t when) {
      return idle_[at(i)].to < when;
    });
    for (; it != ins.end() && idle_[at(*it)].to == t; ++it) {
      if (idle_[at(*it)].value == v) return *it;
    }
    return -1;
  }

  // The op whose first run is at the position, or comes next.
  OpId stage(std::int32_t t) {
    if (stage_.empty()) {
      stage_.resize(schedule_.size());
      std::vector<char> seen(at(problem_.op_count()), 0);
      std::vector<char> first(schedule_.size(), 0);
      for (std::size_t k = 0; k < schedule_.size(); ++k) {
        char& s = seen[at(schedule_[k])];
        first[k] = !s;
        s = 1;
      }
      OpId next = problem_.op_count() - 1;
      for (std::size_t k = schedule_.size(); k-- > 0;) {
        if (first[k]) next = schedule_[k];
        stage_[k] = next;
      }
    }
    return stage_[at(t)];
  }

  static constexpr std::int64_t kPlenty = std::int64_t{1} << 60;

  struct Planned {
    std::int32_t made = -1;
    double start = -1, end = -1;
  };

  const RecordedStep& step_;
  const Problem& problem_;
  const std::span<const OpId> schedule_;
  const std::int64_t limit_;
  const Tier& tier_;
  std::vector<std::int64_t> base_profile_, profile_, over_, in_tier_;
  std::vector<Idle> idle_;
  std::vector<Away> away_;        // per idle
  std::vector<char> chosen_;      // per idle
  std::vector<Planned> planned_;  // per value
  std::vector<double> time_;
  std::vector<OpId> stage_;
  EngineSlots out_, in_;
  RandomBits random_{0};
  double spread_ = 0;
  std::vector<double> factor_;  // per idle, of its score
  CoveredSchedule result_;
};

}  // namespace

CoveredSchedule cover_by_copies(const RecordedStep& step, std::span<const OpId> schedule,
                                std::int64_t limit_bytes, const Tier& tier, int tries) {
  return Cover(step, schedule, limit_bytes, tier).run(tries);
}

}  // namespace plimsoll::planner
