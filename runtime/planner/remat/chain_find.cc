// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/base/index.h"
#include "runtime/planner/remat/chain.h"

namespace plimsoll::planner {
namespace {

// A training step is a chain when each forward op reads only the result of the one before, and each
// op behind them reads, of forward values, only those of one stage, its own result, its side
// results, and the result before it; stages then fall from the last op to the first. Anything else
// (a residual connection, a weight that is recomputed) makes it no chain, and simulations plan it.
class ChainFinder {
 public:
  explicit ChainFinder(const Problem& problem) : problem_(problem) {}

  std::optional<Chain> run() {
    if (!problem_.view_of.empty() && std::any_of(problem_.view_of.begin(), problem_.view_of.end(),
                                                 [](ValueId of) { return of >= 0; })) {
      return std::nullopt;
    }
    find_forward();
    // What reads only the last result may be the first op backward.
    for (int tries = 0; tries < 3 && forward_end_.value() >= 2; ++tries, --forward_end_) {
      if (forward_end_ == problem_.ops.end_id()) continue;
      chain_.stages.clear();
      name_results();
      if (!find_backward()) continue;
      measure_backward();
      share_stages();
      return std::move(chain_);
    }
    return std::nullopt;
  }

 private:
  const Value& value(ValueId v) const { return problem_.values[v]; }
  bool in_arena(ValueId v) const { return problem_.in_arena(v) && value(v).producer >= 0; }
  bool is_forward(ValueId v) const { return value(v).producer < forward_end_; }

  // Ops may be run again and read the result of the op before alone.
  bool continues(OpId op) {
    if (!problem_.ops[op].recomputable) return false;
    ValueId before;
    for (const ValueId v : problem_.reads[op]) {
      if (value(v).overwritten != kNever) return false;
      if (!in_arena(v)) continue;
      if (before >= 0 || value(v).producer != op - 1) return false;
      before = v;
    }
    if ((before < 0) != (op == OpId(0))) return false;
    for (const ValueId v : problem_.outputs[op]) {
      if (v < 0) continue;
      if (!in_arena(v) || value(v).live_out || value(v).keep) return false;
    }
    if (before >= 0) result_.push_back(before);
    return true;
  }

  void find_forward() {
    while (forward_end_ < problem_.ops.end_id() && continues(forward_end_)) ++forward_end_;
  }

  // The last forward op's result is the largest of those that are read.
  void name_results() {
    ValueId last;
    for (const ValueId v : problem_.outputs[forward_end_ - 1]) {
      if (v < 0 || problem_.uses[v].empty()) continue;
      if (last < 0 || value(v).bytes > value(last).bytes) last = v;
    }
    result_.resize(forward_end_.index());
    result_.back() = last;
    chain_.stages.resize(forward_end_.index());
    for (const OpId op : result_.ids()) {
      Chain::Stage& stage = chain_.stages[at(op)];
      stage.first_forward = op;
      stage.seconds = problem_.ops[op].seconds;
      stage.workspace = problem_.ops[op].workspace;
      for (const ValueId v : problem_.outputs[op]) {
        if (v < 0) continue;
        (v == result_[op]           ? stage.bytes
         : problem_.uses[v].empty() ? stage.workspace
                                    : stage.side_bytes) += value(v).bytes;
      }
      if (op == OpId(0) || problem_.reuse.empty()) continue;
      for (const Reuse& r : problem_.reuse[op]) {
        if (r.input == result_[op - 1]) stage.in_place = value(r.output).bytes;
      }
    }
  }

  bool find_backward() {
    OpId now = forward_end_ - 1;
    for (OpId op = forward_end_; op < problem_.ops.end_id(); ++op) {
      OpId stage;
      for (const ValueId v : problem_.reads[op]) {
        if (in_arena(v) && is_forward(v)) stage = std::max(stage, value(v).producer);
      }
      if (stage > now) return false;
      if (stage >= 0) now = stage;
      Chain::Stage& here = chain_.stages[at(now)];
      for (const ValueId v : problem_.reads[op]) {
        if (!in_arena(v) || !is_forward(v)) continue;
        const OpId from = value(v).producer;
        const bool result = v == result_[from];
        if (from == now) {
          (result ? here.reads_own : here.reads_sides) = true;
        } else if (from == now - 1 && result) {
          here.reads_before = true;
        } else {
          return false;
        }
      }
      if (here.backward_count++ == 0) here.first_backward = op;
    }
    return true;
  }

  // Backward values are made once and live until their last read.
  void measure_backward() {
    const OpId n = problem_.ops.end_id();
    IdVector<OpId, std::int64_t> peak(problem_.ops.size(), 0), before = peak;
    before.push_back(0);
    std::int64_t live = 0;
    for (OpId op = forward_end_; op < n; ++op) {
      before[op] = live;
      for (const ValueId v : problem_.outputs[op]) {
        if (v >= 0 && problem_.in_arena(v)) live += value(v).bytes;
      }
      const auto dies = [&](ValueId v) {
        if (!problem_.in_arena(v) || value(v).producer < forward_end_ || value(v).live_out) {
          return false;
        }
        const auto uses = problem_.uses[v];
        return uses.empty() ? value(v).producer == op : uses.back() == op;
      };
      std::int64_t saved = 0;
      if (!problem_.reuse.empty()) {
        for (const Reuse& r : problem_.reuse[op]) {
          if (saved == 0 && problem_.in_arena(r.output) && dies(r.input)) {
            saved = value(r.output).bytes;
          }
        }
      }
      peak[op] = live + problem_.ops[op].workspace - saved;
      for (const ValueId v : problem_.reads[op]) live -= dies(v) ? value(v).bytes : 0;
      for (const ValueId v : problem_.outputs[op]) {
        if (v >= 0 && dies(v)) live -= value(v).bytes;
      }
    }
    before[n] = live;
    OpId next = forward_end_;
    for (std::size_t i = chain_.stages.size(); i-- > 0;) {
      Chain::Stage& stage = chain_.stages[i];
      stage.backward_entry = stage.backward_peak = before[next];
      for (int k = 0; k < stage.backward_count; ++k, ++next) {
        stage.backward_peak = std::max(stage.backward_peak, peak[next]);
      }
    }
  }

  // Whether op `next` belongs to the stage of the op before: what the stage has kept so far is no
  // smaller than next's result, and of no use once that is there.
  static bool shares(const Chain::Stage& before, const Chain::Stage& next) {
    return before.backward_count == 0 && before.side_bytes == 0 && next.side_bytes == 0 &&
           !next.reads_before && before.bytes >= next.bytes;
  }

  // Example: x -> dot -> tanh, where the backward stage of tanh reads tanh alone: the two are one
  // stage of tanh's bytes, in which the dot's bytes are workspace. Layers that repeat become equal
  // stages, and half as many stages are a quarter of the work or less.
  void share_stages() {
    std::vector<Chain::Stage> stages;
    for (Chain::Stage next : chain_.stages) {
      if (stages.empty() || !shares(stages.back(), next)) {
        stages.push_back(next);
        continue;
      }
      const Chain::Stage first = stages.back();
      stages.pop_back();
      const std::int64_t kept = stages.empty() ? 0 : stages.back().bytes;  // the stage before's
      const std::int64_t in_first = first.bytes + first.workspace;
      const std::int64_t in_next = first.bytes - next.in_place + next.bytes + next.workspace;
      const std::int64_t passing = std::max(kept - first.in_place + in_first, in_next);
      next.seconds += first.seconds;
      next.workspace = std::max(in_first, in_next) - next.bytes;
      next.in_place = kept + next.bytes + next.workspace - passing;
      next.first_forward = first.first_forward;
      next.forward_count += first.forward_count;
      stages.push_back(next);
    }
    chain_.stages = std::move(stages);
  }

  const Problem& problem_;
  OpId forward_end_{0};             // the first op that is not one of the chain
  IdVector<OpId, ValueId> result_;  // per forward op, what the next one reads
  Chain chain_;
};

}  // namespace

std::optional<Chain> find_chain(const Problem& problem) { return ChainFinder(problem).run(); }

}  // namespace plimsoll::planner
