// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/problem/schedule.h"

#include <algorithm>
#include <numeric>

// Liveness of a schedule with recomputation. A value may have several copies, one per execution of
// its producer; a read is served by the latest copy before it. Going backwards, the first read of a
// value that is met is its copy's last use, and an execution of the producer begins that copy: what
// is read before it belongs to the copy before. Everything else (peak, profile, validity) follows
// from where copies begin and die.

namespace plimsoll::planner {

Schedule each_once(const Problem& problem) {
  Schedule once(problem.ops.size());
  std::iota(once.begin(), once.end(), OpId(0));
  return once;
}

Rows<ValueId, ValueId> list_views(const Problem& problem) {
  if (problem.view_of.empty()) return {};
  Rows<ValueId, ValueId> viewed;
  for (const ValueId of : problem.view_of) {
    if (of >= 0) viewed.push(of);
    viewed.close();
  }
  return invert(viewed, problem.values.size());
}

// A value may be made several times; each making has a life of its own, up to the last read before
// the next making. Going backwards, the first read that is met of a value is the last one of the
// making before it; a making forgets what was met (`l = -1`), since reads further to the front
// belong to an earlier making.
//
// Example, ops by what they make: a, b(a), c(b), a again, d(a, c). Backwards: d is the last read of
// a and c; then a is made: this copy lives from step 3 to 4; c reads b; b reads a: the last read of
// the first copy, which lives from step 0 to 1.
Liveness find_liveness(const Problem& problem, std::span<const OpId> schedule) {
  const auto n = static_cast<std::int32_t>(schedule.size());
  Liveness liveness;
  liveness.first_output.resize(schedule.size() + 1, 0);
  liveness.first_read.resize(schedule.size() + 1, 0);
  for (std::size_t t = 0; t < schedule.size(); ++t) {
    liveness.first_output[t + 1] =
        liveness.first_output[t] + static_cast<std::int32_t>(problem.outputs[schedule[t]].size());
    liveness.first_read[t + 1] =
        liveness.first_read[t] + static_cast<std::int32_t>(problem.reads[schedule[t]].size());
  }
  liveness.last_use.assign(at(liveness.first_output[schedule.size()]), -1);
  liveness.dies.assign(at(liveness.first_read[schedule.size()]), 0);
  // The last read of each value before its producer runs again; -1: none seen yet.
  IdVector<ValueId, std::int32_t> last(problem.values.size(), -1);
  for (const ValueId v : problem.values.ids()) {
    if (problem.values[v].live_out) last[v] = n;
  }
  for (std::int32_t t = n - 1; t >= 0; --t) {
    const OpId op = schedule[at(t)];
    std::int32_t slot = liveness.first_output[at(t)];
    for (const ValueId v : problem.outputs[op]) {
      if (v >= 0) {
        auto& l = last[v];
        liveness.last_use[at(slot)] = l < 0 ? t : l;
        l = -1;
      }
      ++slot;
    }
    std::int32_t read = liveness.first_read[at(t)];
    for (const ValueId v : problem.reads[op]) {
      auto& l = last[v];
      if (l < 0) {
        l = t;
        liveness.dies[at(read)] = 1;
      }
      ++read;
    }
  }
  return liveness;
}

std::vector<ValueId> dead_after(const Problem& problem, std::span<const OpId> schedule,
                                const Liveness& liveness, std::size_t t) {
  std::vector<ValueId> dead;
  auto read = at(liveness.first_read[t]);
  for (const ValueId v : problem.reads[schedule[t]]) {
    if (liveness.dies[read++]) dead.push_back(v);
  }
  auto slot = at(liveness.first_output[t]);
  for (const ValueId v : problem.outputs[schedule[t]]) {
    if (liveness.last_use[slot++] == static_cast<std::int32_t>(t)) dead.push_back(v);
  }
  return dead;
}

// A dying operand can be overwritten once. Pairs are taken in the order in which they were found,
// which is not always the matching with the most bytes, but the same for planning and for emitting:
// what counts is that the two agree.
void match_in_place(const Problem& problem, OpId op, std::span<const char> dies,
                    std::vector<Reuse>& taken) {
  taken.clear();
  const auto reads = problem.reads[op];
  for (const Reuse& r : problem.reuse[op]) {
    if (!problem.in_arena(r.input) || !problem.in_arena(r.output)) continue;
    const auto it = std::find(reads.begin(), reads.end(), r.input);
    if (it == reads.end() || !dies[at(it - reads.begin())]) continue;
    const bool used = std::any_of(taken.begin(), taken.end(), [&](const Reuse& t) {
      return t.input == r.input || t.output == r.output;
    });
    if (!used) taken.push_back(r);
  }
}

double total_seconds(const Problem& problem, std::span<const OpId> schedule) {
  IdVector<OpId, std::int32_t> runs(problem.ops.size(), 0);
  for (const OpId op : schedule) ++runs[op];
  double seconds = 0;
  for (const OpId op : runs.ids()) seconds += runs[op] * problem.ops[op].seconds;
  return seconds;
}

// The bytes at a step: what is live, with this step's results, plus its workspace, less results
// that take the place of a dying operand. What dies here leaves after the step. This is the peak
// before packing: offsets may add to it, and never take from it.
Evaluation evaluate(const Problem& problem, std::span<const OpId> schedule,
                    std::vector<std::int64_t>* profile) {
  const Liveness liveness = find_liveness(problem, schedule);
  Evaluation result;
  if (profile != nullptr) profile->assign(schedule.size(), 0);
  std::int64_t live = 0;
  std::vector<Reuse> taken;
  for (std::size_t t = 0; t < schedule.size(); ++t) {
    const OpId op = schedule[t];
    const Op& what = problem.ops[op];
    const auto reads = problem.reads[op];
    const std::span<const char> dies(liveness.dies.data() + liveness.first_read[t],
                                     at(liveness.first_read[t + 1] - liveness.first_read[t]));
    std::int64_t dead = 0;
    std::int64_t saved = 0;
    std::int32_t slot = liveness.first_output[t];
    for (const ValueId v : problem.outputs[op]) {
      if (v >= 0 && problem.in_arena(v)) {
        const std::int64_t bytes = problem.values[v].bytes;
        live += bytes;
        if (liveness.last_use[at(slot)] == static_cast<std::int32_t>(t)) {
          dead += bytes;
        }
      }
      ++slot;
    }
    for (std::size_t k = 0; k < reads.size(); ++k) {
      if (dies[k] && problem.in_arena(reads[k])) {
        dead += problem.values[reads[k]].bytes;
      }
    }
    if (dead > 0 && !problem.reuse[op].empty()) {
      match_in_place(problem, op, dies, taken);
      for (const Reuse& r : taken) saved += problem.values[r.output].bytes;
    }
    const std::int64_t here = live + what.workspace - saved;
    if (profile != nullptr) (*profile)[t] = here;
    if (here > result.arena_peak) {
      result.arena_peak = here;
      result.peak_position = static_cast<std::int32_t>(t);
    }
    live -= dead;
  }
  result.seconds = total_seconds(problem, schedule);
  return result;
}

bool is_valid(const Problem& problem, std::span<const OpId> schedule) {
  IdVector<OpId, char> done(problem.ops.size(), 0);
  IdVector<ValueId, std::int32_t> made(problem.view_of.empty() ? 0 : problem.values.size(), -1);
  for (std::size_t t = 0; t < schedule.size(); ++t) {
    const OpId op = schedule[t];
    if (!made.empty()) {
      for (const ValueId v : problem.reads[op]) {
        const ValueId of = problem.view_of[v];
        if (of < 0) continue;
        if (made[v] < made[of]) return false;
      }
      for (const ValueId v : problem.outputs[op]) {
        if (v >= 0) made[v] = static_cast<std::int32_t>(t);
      }
    }
    for (const ValueId v : problem.reads[op]) {
      const Value& value = problem.values[v];
      if (value.producer >= 0 && !done[value.producer]) return false;
      if (value.overwritten != kNever && done[value.overwritten]) {
        return false;
      }
    }
    auto& again = done[op];
    if (again && !problem.ops[op].recomputable) return false;
    again = 1;
  }
  return std::all_of(done.begin(), done.end(), [](char d) { return d != 0; });
}

}  // namespace plimsoll::planner
