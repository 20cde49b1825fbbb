// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remedies/stream_constants.h"

#include <algorithm>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/planner/problem/problem_builder.h"
#include "runtime/planner/problem/timeline.h"

// Constants that come when they are needed.
//
// A model that infers is mostly weights, each read once or twice in a run. All of them together are
// its floor as long as they stay; one layer's are as soon as they may go. A constant is cheap to
// bring back, as nothing has to be computed or saved for it: so it becomes a value that an upload
// makes, as parameters in host memory are, and whatever recomputes values brings it back.
//
// Which constants come and go is decided from below. First all do: a search finds a schedule for
// the arena that the limit leaves. Then constants settle, as far as there are bytes left at every
// position where they are not in the arena anyway: one that stays takes its bytes at all positions,
// and its uploads, in this run and in all that follow, are saved. Example: a limit of 100 MB, eight
// layers of 20 MB, each read once beside 10 MB of activations: streamed, the arena peaks at 30 MB,
// so 70 MB are left and three layers stay; five are uploaded in each run.

namespace plimsoll::planner {
namespace {

// Whether the op brings in a constant.
bool is_constant_upload(const Op& op) {
  return op.kind == StepKind::upload && op.instruction->opcode() == ir::Opcode::constant;
}

Problem stream(const Problem& problem, std::span<const ValueId> constants, const Tier* host) {
  ProblemBuilder builder(problem);
  IdVector<ValueId, char> to_come(problem.values.size(), 0);
  for (const ValueId v : constants) to_come[v] = 1;
  for (const OpId op : problem.ops.ids()) {
    for (const ValueId v : problem.reads[op]) {
      if (!std::exchange(to_come[v], 0)) continue;
      Value& value = builder.value(v);
      Op upload;
      upload.kind = StepKind::upload;
      upload.instruction = value.source;
      upload.leaf = value.leaf;
      upload.seconds = host == nullptr ? 0 : upload_seconds(value.bytes, *host);
      upload.recomputable = true;
      value.home = Home::arena;
      value.producer = builder.add_op(upload, {}, {v});
      builder.problem().constant_bytes -= value.bytes;
    }
    builder.copy_op(op);
  }
  return builder.finish();
}

// The positions of a schedule at which a value lies in the arena, and the uploads that make it.
struct Presence {
  std::vector<std::pair<std::int32_t, std::int32_t>> spans;  // first and last, rising
  double seconds = 0;
};

// Of every value that an upload of a constant makes.
IdVector<ValueId, Presence> find_presence(const Problem& problem, const Schedule& schedule) {
  IdVector<ValueId, Presence> presence(problem.values.size());
  const Liveness liveness = find_liveness(problem, schedule);
  for (std::size_t t = 0; t < schedule.size(); ++t) {
    const Op& op = problem.ops[schedule[t]];
    if (!is_constant_upload(op)) continue;
    Presence& of = presence[problem.outputs[schedule[t]].front()];
    const auto here = static_cast<std::int32_t>(t);
    of.spans.emplace_back(here, std::max(here, liveness.last_use[at(liveness.first_output[t])]));
    of.seconds += op.seconds;
  }
  return presence;
}

// The most that a profile has where a value is not there, and where it is.
struct Highest {
  std::int64_t outside = 0, inside = 0;
};

Highest highest(const std::vector<std::int64_t>& profile, const Presence& of) {
  Highest most;
  std::size_t next = 0;
  for (std::size_t t = 0; t < profile.size(); ++t) {
    const auto here = static_cast<std::int32_t>(t);
    while (next < of.spans.size() && of.spans[next].second < here) ++next;
    const bool inside = next < of.spans.size() && of.spans[next].first <= here;
    std::int64_t& height = inside ? most.inside : most.outside;
    height = std::max(height, profile[t]);
  }
  return most;
}

// The problem and the schedule without the uploads of what stays.
Settled keep_resident(const Problem& problem, const Schedule& schedule,
                      const IdVector<ValueId, char>& stays) {
  ProblemBuilder builder(problem);
  for (const OpId op : problem.ops.ids()) {
    const bool is_upload = is_constant_upload(problem.ops[op]);
    const ValueId made = is_upload ? problem.outputs[op].front() : ValueId();
    if (!is_upload || !stays[made]) {
      builder.copy_op(op);
      continue;
    }
    Value& value = builder.value(made);
    value.home = Home::constant;
    value.producer = OpId();
    builder.problem().constant_bytes += value.bytes;
  }
  Settled settled;
  for (const OpId op : schedule) {
    if (builder.new_op(op) >= 0) settled.schedule.push_back(builder.new_op(op));
  }
  settled.problem = builder.finish();
  return settled;
}

}  // namespace

std::vector<ValueId> find_streamable(const Problem& problem, std::int64_t least_bytes) {
  std::vector<ValueId> constants;
  if (problem.graph == nullptr || problem.graph->role != Role::entry) return constants;
  IdVector<ValueId, char> held(problem.values.size(), 0);
  for (const ValueId v : problem.graph->held.items) held[v] = 1;
  for (const ValueId v : problem.values.ids()) {
    const Value& value = problem.values[v];
    if (value.home == Home::constant && value.source->shape().is_array() &&
        value.bytes >= least_bytes && value.hint != Hint::keep && !held[v] &&
        problem.uses[v].size() > 0) {
      constants.push_back(v);
    }
  }
  return constants;
}

Problem stream_constants(const Problem& problem, std::span<const ValueId> constants,
                         const Tier& host) {
  return stream(problem, constants, &host);
}

Problem relax_constants(const Problem& problem, std::span<const ValueId> constants) {
  return stream(problem, constants, nullptr);
}

// One after the other: where the profile lies so far, and what stays beside it. A value that is
// written over the constant's arena bytes needs bytes of its own once the constant stays, so what
// comes out is measured, and the last half of what was to stay is streamed after all where that is
// too much.
std::optional<Settled> settle_constants(const Problem& problem, const Schedule& schedule,
                                        std::span<const ValueId> constants, std::int64_t limit,
                                        double least_seconds) {
  std::vector<std::int64_t> profile;
  evaluate(problem, schedule, &profile);
  const IdVector<ValueId, Presence> presence = find_presence(problem, schedule);
  std::vector<ValueId> wanted;
  for (const ValueId v : constants) {
    if (!presence[v].spans.empty()) wanted.push_back(v);
  }
  const auto worth = [&](ValueId v) {
    return presence[v].seconds / static_cast<double>(problem.values[v].bytes);
  };
  std::stable_sort(wanted.begin(), wanted.end(),
                   [&](ValueId a, ValueId b) { return worth(a) > worth(b); });
  double seconds = predicted_seconds(problem, schedule);
  std::int64_t stay_bytes = problem.constant_bytes;
  std::vector<ValueId> chosen;
  for (const ValueId v : wanted) {
    const std::int64_t bytes = problem.values[v].bytes;
    if (seconds - presence[v].seconds < least_seconds) continue;
    const Highest most = highest(profile, presence[v]);
    if (stay_bytes + bytes + std::max(most.outside, most.inside - bytes) > limit) continue;
    for (const auto& [first, last] : presence[v].spans) {
      const auto end = std::min<std::int64_t>(last + 1, std::ssize(profile));
      for (std::int64_t t = first; t < end; ++t) profile[at(t)] -= bytes;
    }
    stay_bytes += bytes;
    seconds -= presence[v].seconds;
    chosen.push_back(v);
  }
  for (; !chosen.empty(); chosen.resize(chosen.size() / 2)) {
    IdVector<ValueId, char> stays(problem.values.size(), 0);
    for (const ValueId v : chosen) stays[v] = 1;
    Settled settled = keep_resident(problem, schedule, stays);
    const std::int64_t peak = evaluate(settled.problem, settled.schedule).arena_peak;
    if (peak + settled.problem.constant_bytes <= limit) return settled;
  }
  return std::nullopt;
}

}  // namespace plimsoll::planner
