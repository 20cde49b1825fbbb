// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remedies/slice_residuals.h"

#include <algorithm>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/planner/problem/arrange.h"
#include "runtime/planner/problem/problem_builder.h"
#include "runtime/planner/problem/timeline.h"

namespace plimsoll::planner {
namespace {

SlicedState state_of(const ScanResidual::Use& use) {
  SlicedState state;
  state.leaf = use.leaf;
  state.writes = use.access.writes;
  state.slices = use.access.slices;
  state.slice_bytes = use.access.slice_bytes;
  state.rounds = use.access.rounds;
  state.first = use.access.first;
  state.step = use.access.step;
  return state;
}

std::int64_t stored_bytes(const ScanResidual& residual) {
  return state_of(residual.uses[0]).stored_bytes();
}

// The place of `v` in a row, the only one; -1: it is there more than once, or not at all.
int only_place(std::span<const ValueId> row, ValueId v) {
  const auto first = std::find(row.begin(), row.end(), v);
  if (first == row.end() || std::find(first + 1, row.end(), v) != row.end()) return -1;
  return static_cast<int>(first - row.begin());
}

bool is_loop(const Problem& problem, OpId op) {
  const Op& what = problem.ops[op];
  return what.kind == StepKind::compute && what.instruction != nullptr &&
         what.instruction->opcode() == ir::Opcode::while_ && what.variants >= 0;
}

bool add_use(const Problem& problem, ScanResidual& residual, OpId op, int leaf, bool writes) {
  if (leaf < 0 || !is_loop(problem, op)) return false;
  auto access = find_residual_access(*problem.ops[op].instruction, leaf);
  if (!access || access->writes != writes) return false;
  if (!residual.uses.empty() && (access->slices != residual.uses[0].access.slices ||
                                 access->slice_bytes != residual.uses[0].access.slice_bytes)) {
    return false;
  }
  residual.uses.push_back({op, leaf, std::move(*access)});
  return true;
}

// Values in transit or asked for stay as they are, results are wanted as a whole.
bool may_go(const Problem& problem, const PlanOptions& options, ValueId v) {
  const Value& value = problem.values[v];
  return value.home == Home::arena && value.producer >= 0 && !value.live_out && !value.keep &&
         value.hint != Hint::keep && value.hint != Hint::recompute &&
         value.bytes >= std::max<std::int64_t>(options.min_bytes, 1) && !problem.uses[v].empty() &&
         is_loop(problem, value.producer);
}

// Rebuilds a problem without some of its ops.
//
// Example: a scan of 100 rounds forward writes one slice of 1 MB a round into a stacked scan
// residual s, another loop backward reads them from the last to the first. Kept, s takes 100 MB
// from the first round forward to the last one backward. Sliced, s lies on the host, and each loop
// has a window of two slices, 2 MB: while round n writes its slice into one slot, that of round n -
// 1 is copied out of the other; backward, the slice of the next round is copied in while this one
// is read. The loops' time is the longer of their rounds' work and their copies, round by round
// (timeline.h, sliced_seconds).
class Slicer {
 public:
  Slicer(const Problem& base, std::span<const ScanResidual> residuals, const PlanOptions& options)
      : base_(base), residuals_(residuals), options_(options) {}

  Problem run() {
    out_ = base_;
    for (const ScanResidual& residual : residuals_) slice(residual);
    forget_contents();
    drop_dead_ops();
    return std::move(out_);
  }

 private:
  SlicedLoop& loop_of(OpId op) {
    std::int32_t& row = out_.ops[op].sliced;
    if (row < 0) {
      row = static_cast<std::int32_t>(out_.sliced.size());
      out_.sliced.emplace_back();
    }
    return out_.sliced[at(row)];
  }

  void slice(const ScanResidual& residual) {
    Value& value = out_.values[residual.value];
    value.home = residual.tier;
    value.bytes = stored_bytes(residual);
    for (const ScanResidual::Use& use : residual.uses) {
      SlicedLoop& loop = loop_of(use.op);
      SlicedState state = state_of(use);
      const Tier& tier = options_[space_of(residual.tier)];
      state.synchronous = time_transfer(tier, state.slice_bytes, state.writes).synchronous;
      add_transfers(loop, state, space_of(residual.tier), options_);
      loop.window_bytes += state.window_bytes();
      loop.states.push_back(state);
    }
  }

  // What a residual holds before it is written is not read.
  void forget_contents() {
    Rows<OpId, ValueId> inputs, reads;
    for (const OpId op : base_.ops.ids()) {
      const SlicedLoop* loop = out_.sliced_loop(op);
      std::vector<ValueId> row(base_.inputs[op].begin(), base_.inputs[op].end());
      std::vector<ValueId> read(base_.reads[op].begin(), base_.reads[op].end());
      for (std::size_t s = 0; loop != nullptr && s < loop->states.size(); ++s) {
        if (!loop->states[s].writes) continue;
        const ValueId old = std::exchange(row[at(loop->states[s].leaf)], ValueId());
        if (std::find(row.begin(), row.end(), old) == row.end()) std::erase(read, old);
        const ValueId made = base_.outputs[op][at(loop->states[s].leaf)];
        std::erase_if(out_.reuse[op], [&](const Reuse& r) { return r.output == made; });
      }
      inputs.push_row(row);
      reads.push_row(read);
    }
    out_.inputs = std::move(inputs);
    out_.reads = std::move(reads);
  }

  // Ops whose results nobody reads any more. Their time stays with the first loop, so that no plan
  // comes out faster than the one that keeps everything.
  //
  // A residual begins as a broadcast of zeros that its loop overwrites slice by slice. Sliced, the
  // zeros are read by nobody, and their op goes.
  void drop_dead_ops() {
    IdVector<ValueId, std::int32_t> readers(out_.values.size(), 0), before(out_.values.size(), 0);
    for (const ValueId v : out_.reads.items) ++readers[v];
    for (const ValueId v : base_.reads.items) ++before[v];
    for (const ValueId v : out_.results) {
      if (v >= 0) ++readers[v];
    }
    IdVector<OpId, char> dead(out_.ops.size(), 0);
    for (OpId op = out_.ops.end_id() - 1; op >= 0; --op) {
      const auto outputs = out_.outputs[op];
      const bool wanted = std::any_of(outputs.begin(), outputs.end(), [&](ValueId v) {
        if (v < 0) return false;
        const Value& value = out_.values[v];
        return readers[v] > 0 || before[v] == 0 || value.live_out || value.home != Home::arena;
      });
      if (wanted || outputs.empty() || !out_.ops[op].recomputable) continue;
      dead[op] = 1;
      for (const ValueId v : out_.reads[op]) --readers[v];
    }
    double lost = 0;
    ProblemBuilder builder(out_);
    for (const OpId op : out_.ops.ids()) {
      if (!dead[op]) {
        builder.copy_op(op);
        continue;
      }
      lost += out_.ops[op].seconds;
      for (const ValueId v : out_.outputs[op]) {
        if (v < 0) continue;
        builder.value(v).producer = OpId();
        builder.value(v).bytes = 0;
      }
    }
    Problem kept = builder.finish();
    if (!kept.sliced.empty()) kept.sliced.front().lost_seconds = lost;
    for (const OpId op : kept.ops.ids()) {
      if (kept.sliced_loop(op) == nullptr) continue;
      // As if no callee were chosen yet.
      const auto& row = kept.graph->variants[at(kept.ops[op].variants)];
      const int choice = std::exchange(kept.variant[op], -1);
      kept.ops[op].seconds -= row[at(choice)].seconds;
      choose_variant(kept, op, choice);
    }
    out_ = std::move(kept);
  }

  const Problem& base_;
  const std::span<const ScanResidual> residuals_;
  const PlanOptions& options_;
  Problem out_;
};

}  // namespace

std::vector<ScanResidual> find_residuals(const Problem& problem, const PlanOptions& options) {
  std::vector<ScanResidual> residuals;
  const bool has_tier = std::any_of(kTiers.begin(), kTiers.end(),
                                    [&](MemorySpace tier) { return options[tier].bytes > 0; });
  if (!options.remedies.swap || !has_tier) return residuals;
  for (const ValueId v : problem.values.ids()) {
    if (!may_go(problem, options, v)) continue;
    const auto& held = problem.graph->held.items;
    if (std::find(held.begin(), held.end(), v) != held.end() ||
        std::find(problem.results.begin(), problem.results.end(), v) != problem.results.end()) {
      continue;
    }
    ScanResidual residual;
    residual.value = v;
    const OpId writer = problem.values[v].producer;
    bool fits = add_use(problem, residual, writer, only_place(problem.outputs[writer], v), true);
    for (const OpId reader : problem.uses[v]) {
      fits =
          fits && add_use(problem, residual, reader, only_place(problem.inputs[reader], v), false);
    }
    if (fits && state_of(residual.uses[0]).window_bytes() < problem.values[v].bytes) {
      residuals.push_back(std::move(residual));
    }
  }
  std::stable_sort(residuals.begin(), residuals.end(),
                   [&](const ScanResidual& a, const ScanResidual& b) {
                     return problem.values[a.value].bytes > problem.values[b.value].bytes;
                   });
  PerTier<Tier> free = options;
  std::erase_if(residuals, [&](ScanResidual& residual) {
    const std::int64_t bytes = stored_bytes(residual);
    const auto tier = std::find_if(kTiers.begin(), kTiers.end(),
                                   [&](MemorySpace t) { return bytes <= free[t].bytes; });
    if (tier == kTiers.end()) return true;
    residual.tier = placement_on(*tier);
    free[*tier].bytes -= bytes;
    return false;
  });
  return residuals;
}

Problem slice_residuals(const Problem& problem, std::span<const ScanResidual> residuals,
                        const PlanOptions& options) {
  return Slicer(problem, residuals, options).run();
}

Machine without_residuals(std::span<const ScanResidual> residuals, Machine machine) {
  for (const ScanResidual& residual : residuals) {
    machine[space_of(residual.tier)].bytes -= stored_bytes(residual);
  }
  return machine;
}

Problem relax_residuals(const Problem& problem, std::span<const ScanResidual> residuals) {
  Problem relaxed = problem;
  for (const ScanResidual& residual : residuals) {
    Value& value = relaxed.values[residual.value];
    // What its loop starts from need not be there either.
    const ValueId old = problem.inputs[residual.uses[0].op][at(residual.uses[0].leaf)];
    value.bytes = 0;
    if (old >= 0) relaxed.values[old].bytes = 0;
  }
  return relaxed;
}

}  // namespace plimsoll::planner
