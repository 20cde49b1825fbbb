// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remat/chain.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "runtime/base/index.h"

namespace plimsoll::planner {
namespace {

bool alike(Chain::Stage a, Chain::Stage b) {
  a.first_forward = a.first_backward = b.first_forward = b.first_backward = OpId();
  a.forward_count = a.backward_count = b.forward_count = b.backward_count = 0;
  return a == b;
}

// Least seconds, and the schedule, of running a part of the chain backward. All sizes in slots.
//
// part(s, t, m): the result of op s - 1 is there, stages t .. s are to run backward in m slots
// besides it. With `held` the result of op t is there too, also besides them.
//
// Dynamic programming over parts of a chain: ops 0 .. n - 1 forward, each reading only the one
// before, then stages n - 1 .. 0 backward, stage i reading results of ops i and i - 1.
//
// To run stages t .. s backward from the result of op s - 1 in m slots, either keep everything that
// op s makes and do the rest in what is left, or run forward without keeping up to some op k, keep
// k's result, run stages t .. k + 1 backward from it, let it go, and run the left part, stages k ..
// s, backward from the result of s - 1, which was kept all along:
//   part(s, t, m) = min( seconds_s + part(s + 1, t, m - bytes_s - side_s),
//                        min over k of seconds(s..k) + part(k + 1, t, m - bytes_k)
//                                      + part(s, k, m) )
// Example: 4 equal ops of 1 s, results of one slot, each read by the stage of its op, and 3 slots;
// backward values left aside. Keep op 1's result: ops 0 and 1 forward (2 s), then ops 2 and 3 in
// the two slots that are left (2 s), stages 3, 2 and 1; op 0's result was not kept, so op 0 runs
// again (1 s) for stage 0. 5 s instead of the 4 s that 4 slots take. For equal ops the optimum is
// the binomial schedule of Griewank and Walther (2000); for others the recurrence is that of
// Beaumont et al. (2019), with what a stage keeps besides the result (`side_bytes`).
class ChainSolver {
 public:
  ChainSolver(const Chain& chain, std::int64_t slots, std::int64_t slot_bytes, std::int64_t work)
      : stages_(chain.stages), slots_(slots), most_work_(work) {
    const auto up = [&](std::int64_t& bytes) { bytes = (bytes + slot_bytes - 1) / slot_bytes; };
    for (Chain::Stage& s : stages_) {
      up(s.bytes);
      up(s.side_bytes);
      up(s.workspace);
      s.in_place /= slot_bytes;
      up(s.backward_peak);
      up(s.backward_entry);
    }
    const int n = count();
    for (int i = 0; i < n; ++i) most_pass_ = std::max(most_pass_, pass_bytes(i));
    forward_seconds_.assign(at(n + 1), 0);
    hint_.assign(at(slots_ + 1), 0);
    table_.resize(at(n));
    run_end_.assign(at(n), n - 1);
    run_begin_.assign(at(n), 0);
    for (int i = 0; i < n; ++i) {
      forward_seconds_[at(i + 1)] = forward_seconds_[at(i)] + stages_[at(i)].seconds;
      run_begin_[at(i)] = i > 0 && alike(i - 1, i) ? run_begin_[at(i - 1)] : i;
    }
    for (int i = n - 2; i >= 0; --i) {
      run_end_[at(i)] = alike(i, i + 1) ? run_end_[at(i + 1)] : i;
    }
  }

  // Infinite also when the work runs out.
  double solve() { return part(0, count() - 1, slots_, false).seconds; }
  bool gave_up() const { return work_ > most_work_; }

  void emit(Schedule& schedule) { emit(0, count() - 1, slots_, false, schedule); }

 private:
  struct Best {
    double seconds = -1;  // below zero: not known yet
    // The op, counted from s, up to which to work forward and whose result is kept; -1: stage s
    // alone, its results all kept; -2: there is no choice.
    std::int32_t keep = -2;
  };

  int count() const { return static_cast<int>(stages_.size()); }
  const Chain::Stage& stage(int i) const { return stages_[at(i)]; }

  // The last of all behaves like no other.
  bool alike(int i, int j) const {
    return plimsoll::planner::alike(stage(i), stage(j)) && j < count() - 1;
  }
  double forward(int from, int to) const {
    return forward_seconds_[at(to + 1)] - forward_seconds_[at(from)];
  }

  Best& entry(int s, int t, std::int64_t m, bool held) {
    // Parts of equal stages are equal.
    if (run_end_[at(s)] >= t && t < count() - 1) {
      t -= s - run_begin_[at(s)];
      s = run_begin_[at(s)];
    }
    if (table_[at(s)].empty()) table_[at(s)].resize(at(count()));
    std::vector<Best>& row = table_[at(s)][at(t)];
    if (row.empty()) row.resize(at(2 * (slots_ + 1)));
    return row[at(2 * m + (held ? 1 : 0))];
  }

  Best part(int s, int t, std::int64_t m, bool held) {
    if (m < 0) return {kInfinite, -2};
    if (const Best& known = entry(s, t, m, held); known.seconds >= 0) return known;
    const Best best = work_out(s, t, m, held);
    entry(s, t, m, held) = best;
    return best;
  }

  bool last(int t) const { return t == count() - 1; }

  // Stage t's needs are met by its own result alone.
  bool own_is_enough(int t) const { return !stage(t).reads_before && !stage(t).reads_sides; }

  Best work_out(int s, int t, std::int64_t m, bool held) {
    if (++work_ > most_work_) return {kInfinite, -2};
    const Chain::Stage& end = stage(t);
    if (held && own_is_enough(t)) {
      if (end.backward_peak > m) return {kInfinite, -2};
      return {t == s ? 0 : part(s, t - 1, m + end.bytes, false).seconds, -2};
    }
    if (s == t) return {alone(s, m, held), -2};
    // Nothing can be faster than to run each op once.
    const bool run_last = last(t) || (end.reads_own && !held) || end.reads_sides;
    const double least = forward(s, run_last ? t : t - 1);
    Best best{kInfinite, -2};
    const Chain::Stage& first = stage(s);
    if (first.side_bytes > 0 &&
        end.backward_entry + first.bytes + first.side_bytes + first.workspace <= m &&
        first.backward_peak + first.bytes + first.side_bytes <= m) {
      best.seconds =
          first.seconds + part(s + 1, t, m - first.bytes - first.side_bytes, held).seconds;
      best.keep = -1;
    }
    const auto consider = [&](int k, double enough = kInfinite) {
      const double total = keeping(s, t, k, m, held, enough);
      if (total < best.seconds) best = {total, k - s};
      return total;
    };
    int from = s, to = t;
    if (best.seconds > least && t - s > 8 && run_end_[at(s + 1)] >= t - 3) {
      // The cost is convex in k where stages are alike: look where the last part of as many slots
      // was cut, and gallop downhill from there. The last stages may be others.
      for (int k = t - 3; k <= t; ++k) consider(k);
      int& hint = hint_[at(m)];
      int k = std::clamp(hint, s, t - 1);
      int step = 1;
      double here = consider(k);
      const bool right = consider(k + 1) < here;
      if (here < kInfinite) (right ? from : to) = right ? k : k + 1;
      while (here < kInfinite) {
        const int next = right ? std::min(k + step, t) : std::max(k - step, s);
        if (next == k) break;
        const double there = consider(next);
        if (there > here) {
          (right ? to : from) = next;
          break;
        }
        (right ? from : to) = k;
        k = next;
        here = there;
        step *= 2;
      }
      while (here < kInfinite && to - from >= 4) {
        const int middle = (from + to) / 2;
        const double low = consider(middle), high = consider(middle + 1);
        if (low == kInfinite && high == kInfinite) break;
        (low <= high ? to : from) = middle;
      }
      if (best.keep >= 0) hint = s + best.keep;
    }
    for (int k = from; k <= to && best.seconds > least; ++k) {
      if (forward(s, k) >= best.seconds) break;
      consider(k, best.seconds);
    }
    return best;
  }

  // The cost of working forward to op k, whose result is kept until its stage ran backward; or that
  // it is at least `enough`.
  double keeping(int s, int t, int k, std::int64_t m, bool held, double enough) {
    ++work_;
    if (k == t && (held || !own_is_enough(t))) return kInfinite;
    const Chain::Stage& here = stage(k);
    if (!passes(s, k, m - stage(t).backward_entry)) return kInfinite;
    // What was held is gone by then.
    const double left = kept_part(s, k, held ? m + stage(t).bytes : m);
    if (k == t || forward(s, k) + left >= enough) return forward(s, k) + left;
    return forward(s, k) + left + part(k + 1, t, m - here.bytes, held).seconds;
  }

  // Whether ops s .. k can run one after the other in m slots when none but the last is kept.
  bool passes(int s, int k, std::int64_t m) const {
    if (most_pass_ <= m) return true;
    for (int j = s; j <= k; ++j) {
      if (pass_bytes(j) - (j == s && j > 0 ? stage(j - 1).bytes - stage(j).in_place : 0) > m) {
        return false;
      }
    }
    return true;
  }

  std::int64_t pass_bytes(int op) const {
    const Chain::Stage& here = stage(op);
    const std::int64_t before = op > 0 ? stage(op - 1).bytes - here.in_place : 0;
    return before + here.bytes + here.side_bytes + here.workspace;
  }

  // The left part when op k's result is there, or is evicted if that is better.
  double kept_part(int s, int k, std::int64_t m) {
    const double hold = part(s, k, m - stage(k).bytes, true).seconds;
    if (own_is_enough(k)) return hold;
    return std::min(hold, part(s, k, m, false).seconds);
  }

  double alone(int s, std::int64_t m, bool held) const {
    const Chain::Stage& only = stage(s);
    const bool run = last(s) || (only.reads_own && !held) || only.reads_sides;
    std::int64_t kept = 0;
    if (run) {
      if (only.backward_entry + only.bytes + only.side_bytes + only.workspace > m) {
        return kInfinite;
      }
      kept = (only.reads_own ? only.bytes : 0) + (only.reads_sides ? only.side_bytes : 0);
    }
    return only.backward_peak + kept <= m ? (run ? only.seconds : 0) : kInfinite;
  }

  void run_forward(int s, Schedule& schedule) const {
    for (int k = 0; k < stage(s).forward_count; ++k) {
      schedule.push_back(stage(s).first_forward + k);
    }
  }

  void run_backward(int s, Schedule& schedule) const {
    for (int k = 0; k < stage(s).backward_count; ++k) {
      schedule.push_back(stage(s).first_backward + k);
    }
  }

  void emit(int s, int t, std::int64_t m, bool held, Schedule& schedule) {
    if (held && own_is_enough(t)) {
      run_backward(t, schedule);
      if (t > s) emit(s, t - 1, m + stage(t).bytes, false, schedule);
      return;
    }
    if (s == t) {
      const Chain::Stage& only = stage(s);
      if (last(s) || (only.reads_own && !held) || only.reads_sides) run_forward(s, schedule);
      run_backward(s, schedule);
      return;
    }
    const Best best = part(s, t, m, held);
    if (best.keep < 0) {
      run_forward(s, schedule);
      emit(s + 1, t, m - stage(s).bytes - stage(s).side_bytes, held, schedule);
      run_backward(s, schedule);
      return;
    }
    const int k = s + best.keep;
    for (int i = s; i <= k; ++i) run_forward(i, schedule);
    if (k < t) emit(k + 1, t, m - stage(k).bytes, held, schedule);
    if (held) m += stage(t).bytes;
    const std::int64_t besides = m - stage(k).bytes;
    const bool hold =
        own_is_enough(k) || part(s, k, besides, true).seconds <= part(s, k, m, false).seconds;
    emit(s, k, hold ? besides : m, hold, schedule);
  }

  std::vector<Chain::Stage> stages_;
  const std::int64_t slots_, most_work_;
  std::vector<double> forward_seconds_;
  std::vector<std::int32_t> run_begin_, run_end_;      // of the equal stages around each
  std::vector<std::vector<std::vector<Best>>> table_;  // by s and t, made as they are needed
  std::vector<int> hint_;                              // per number of slots
  std::int64_t most_pass_ = 0;  // the most that working forward by one op needs
  std::int64_t work_ = 0;
};

// How much work may be done for an effort of one.
constexpr std::int64_t kMostWork = 8;

// Pairs of stages between which lie unequal ones.
std::size_t parts_across_runs(const Chain& chain) {
  const auto pairs = [](std::size_t count) { return count * (count + 1) / 2; };
  std::size_t parts = pairs(chain.stages.size()), run = 0;
  for (std::size_t i = 0; i < chain.stages.size(); ++i) {
    run = i > 0 && alike(chain.stages[i - 1], chain.stages[i]) ? run + 1 : 1;
    if (i + 1 == chain.stages.size() || !alike(chain.stages[i], chain.stages[i + 1])) {
      parts -= pairs(run);
    }
  }
  return parts;
}

// The size in which the chain's bytes are counted: their common divisor where that makes few enough
// slots, else the limit's part that does. 0 where even few slots would be too much work.
std::int64_t slot_size(const Chain& chain, std::int64_t arena_limit, std::int64_t effort) {
  std::int64_t divisor = 0;
  std::size_t different = 0;
  for (std::size_t i = 0; i < chain.stages.size(); ++i) {
    const Chain::Stage& s = chain.stages[i];
    for (const std::int64_t bytes :
         {s.bytes, s.side_bytes, s.workspace, s.in_place, s.backward_entry, s.backward_peak}) {
      divisor = std::gcd(divisor, bytes);
    }
    if (i > 0 &&
        (s.bytes != chain.stages[i - 1].bytes || s.seconds != chain.stages[i - 1].seconds ||
         s.backward_entry != chain.stages[i - 1].backward_entry)) {
      ++different;
    }
  }
  // Parts times what is tried for each.
  const std::size_t n = chain.stages.size();
  const std::size_t tries = std::min(n * n * n / 4 + 1, n * (different + 1) / 4 + 1);
  constexpr std::size_t kFewest = 16, kMost = 4096;
  std::size_t slots = std::clamp<std::size_t>(at(effort) / tries, kFewest, kMost);
  // Parts that no run of equal stages has: each is a few tries for every slot.
  constexpr std::size_t kTriesPerPart = 10;
  const std::size_t parts = parts_across_runs(chain);
  if (parts > 8 * n) slots = std::min(slots, at(kMostWork * effort) / (kTriesPerPart * parts));
  if (slots < kFewest) return 0;
  const auto most = static_cast<std::int64_t>(slots);
  if (divisor > 0 && arena_limit / divisor <= most) return divisor;
  return std::max<std::int64_t>(1, (arena_limit + most - 1) / most);
}

}  // namespace

std::optional<Schedule> chain_schedule(const Problem& problem, std::int64_t arena_limit,
                                       std::int64_t effort) {
  constexpr std::size_t kMostStages = 4'000;
  const auto chain = find_chain(problem);
  if (!chain || chain->stages.size() > kMostStages || arena_limit <= 0) return std::nullopt;
  const std::int64_t slot = slot_size(*chain, arena_limit, effort);
  if (slot == 0) return std::nullopt;
  ChainSolver solver(*chain, arena_limit / slot, slot, kMostWork * effort);
  if (solver.solve() == kInfinite || solver.gave_up()) return std::nullopt;
  Schedule schedule;
  solver.emit(schedule);
  if (!is_valid(problem, schedule)) return std::nullopt;
  if (evaluate(problem, schedule).arena_peak > arena_limit) return std::nullopt;
  return schedule;
}

}  // namespace plimsoll::planner
