// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/recorded/recorded_swap_room.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/index.h"

namespace plimsoll::planner {
namespace {

// The values that hold bytes, by what each op has to do before it: let go of some, take others.
class RoomMaker {
 public:
  RoomMaker(const Problem& base, std::int64_t step, int levels)
      : base_(base), step_(step), held_(at(levels), -1) {
    Problem& problem = out_.problem;
    problem.graph = base.graph;
    problem.values = base.values;
    problem.results = base.results;
    problem.view_of = base.view_of;
    problem.parameter_bytes = base.parameter_bytes;
    problem.output_bytes = base.output_bytes;
  }

  // Before the next op of the base, the lowest `free` levels hold nothing, the others do.
  void set_free(int free) {
    Problem& problem = out_.problem;
    std::vector<ValueId> gone, taken;
    for (int level = 0; level < std::ssize(held_); ++level) {
      ValueId& held = held_[at(level)];
      if (level < free && held >= 0) {
        gone.push_back(held);
        held = -1;
      } else if (level >= free && held < 0) {
        Value value;
        value.bytes = step_;
        value.keep = true;
        value.producer = problem.op_count();
        held = static_cast<ValueId>(problem.values.size());
        problem.values.push_back(value);
        if (!problem.view_of.empty()) problem.view_of.push_back(-1);
        taken.push_back(held);
      }
    }
    if (gone.empty() && taken.empty()) return;
    Op op;
    op.kind = StepKind::copy;
    add(op, gone, gone, taken, -1);
  }

  void add_base(OpId op) {
    out_.op_of.push_back(out_.problem.op_count());
    add(base_.ops[at(op)], base_.inputs[op], base_.reads[op], base_.outputs[op], op);
  }

  RoomyProblem finish() {
    Problem& problem = out_.problem;
    set_free(static_cast<int>(held_.size()));
    for (Value& value : problem.values) {
      if (value.overwritten != kNever) value.overwritten = out_.op_of[at(value.overwritten)];
    }
    problem.uses = find_uses(problem.reads, problem.values.size());
    problem.deadline = find_deadlines(problem);
    out_.most = step_ * std::ssize(held_);
    return std::move(out_);
  }

 private:
  void add(const Op& what, std::span<const ValueId> inputs, std::span<const ValueId> reads,
           std::span<const ValueId> outputs, OpId base) {
    Problem& problem = out_.problem;
    const OpId id = problem.op_count();
    problem.ops.push_back(what);
    problem.variant.push_back(base < 0 ? -1 : base_.variant[at(base)]);
    problem.reuse.push_back(base < 0 ? std::vector<Reuse>() : base_.reuse[at(base)]);
    out_.base_of.push_back(base);
    for (const ValueId v : inputs) problem.inputs.push(v);
    for (const ValueId v : reads) problem.reads.push(v);
    for (const ValueId v : outputs) {
      problem.outputs.push(v);
      if (v >= 0) problem.values[at(v)].producer = id;
    }
    problem.inputs.close();
    problem.reads.close();
    problem.outputs.close();
  }

  const Problem& base_;
  const std::int64_t step_;
  std::vector<ValueId> held_;  // per level
  RoomyProblem out_;
};

}  // namespace

std::vector<std::int64_t> room_in_tier(std::span<const double> seconds, const Tier& tier,
                                       double more_seconds) {
  double left = 0;
  for (const double s : seconds) left += s;
  double gone = 0;
  std::vector<std::int64_t> room;
  room.reserve(seconds.size());
  for (const double s : seconds) {
    const double bytes = std::min({(gone + more_seconds) * tier.out_bytes_per_second,
                                   (left + more_seconds) * tier.in_bytes_per_second,
                                   static_cast<double>(tier.bytes)});
    room.push_back(static_cast<std::int64_t>(std::ceil(std::max(0.0, bytes))));
    gone += s;
    left -= s;
  }
  return room;
}

RoomyProblem add_room(const Problem& problem, std::span<const std::int64_t> room, int levels,
                      Rounding rounding) {
  const std::int64_t most = room.empty() ? 0 : *std::max_element(room.begin(), room.end());
  const std::int64_t step = std::max<std::int64_t>(1, (most + levels - 1) / levels);
  RoomMaker maker(problem, step, levels);
  for (OpId op = 0; op < problem.op_count(); ++op) {
    const std::int64_t more = rounding == Rounding::up ? step - 1 : 0;
    maker.set_free(static_cast<int>(std::min<std::int64_t>(levels, (room[at(op)] + more) / step)));
    maker.add_base(op);
  }
  return maker.finish();
}

}  // namespace plimsoll::planner
