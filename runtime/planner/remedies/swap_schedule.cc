// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remedies/swap_schedule.h"

#include <numeric>

#include "runtime/planner/problem/problem_builder.h"
#include "runtime/planner/problem/timeline.h"

// Actions on values become ops. Each value v that is copied out gets four, behind its producer:
//   swap_out  reads v, makes `stored` on the tier
//   swap_wait reads v and `stored`: v may be evicted from here on
//   swap_in   reads `stored`, makes `transit` in the arena
//   swap_wait reads both and makes v again, in the place of `transit`
// The last two run as often as v comes back, which is how several copies in are made of one copy
// out. A copy is evicted by nobody's reading it: evictions are no ops.

namespace plimsoll::planner {
namespace {

class TransferAdder {
 public:
  TransferAdder(const SwapModel& model, const CoveredSchedule& covered)
      : base_(model.problem()), covered_(covered), builder_(base_), views_(list_views(base_)) {
    way_of_.assign(base_.values.size(), nullptr);
    for (const SwapAction& action : covered.actions) {
      // What never comes back need not leave.
      if (action.kind == SwapAction::Kind::copy_in) way_of_[action.value] = action.way;
    }
  }

  SwapSchedule run() {
    origin_.resize(base_.values.size());
    std::iota(origin_.begin(), origin_.end(), ValueId(0));
    ops_of_.assign(base_.values.size(), {});
    for (const OpId op : base_.ops.ids()) {
      builder_.copy_op(op);
      for (const ValueId v : base_.outputs[op]) {
        if (v >= 0 && way_of_[v] != nullptr && base_.values[v].producer == op) add_transfers(v);
      }
    }
    SwapSchedule result;
    result.schedule = schedule();
    result.origin = std::move(origin_);
    result.problem = std::make_shared<const Problem>(builder_.finish());
    return result;
  }

 private:
  struct Transfers {
    OpId out, out_wait, in, in_wait;
  };

  ValueId add_value(ValueId of, Home home, bool keep) {
    Value value = base_.values[of];
    value.home = home;
    value.index = -1;
    value.keep = keep;
    value.overwritten = kNever;
    value.producer = builder_.next_op();
    origin_.push_back(of);
    return builder_.add_value(value);
  }

  void add_transfers(ValueId v) {
    const SwapWay& way = *way_of_[v];
    const Form& form = *way.form;
    Transfers& ops = ops_of_[v];
    Op op;
    op.instruction = base_.values[v].source;
    op.leaf = base_.values[v].leaf;
    const ValueId stored = add_value(v, placement_on(way.tier), false);
    const auto transfer = [&](StepKind kind) {
      const bool is_out = kind == StepKind::swap_out;
      const TransferTime& time = is_out ? form.out : form.in;
      Op made = op;
      made.kind = kind;
      made.engine = engine_of(way.tier, is_out);
      made.seconds = time.engine_seconds;
      made.taken_seconds = time.taken_seconds;
      made.synchronous = time.synchronous;
      return made;
    };
    const Op out = transfer(StepKind::swap_out);
    ops.out = builder_.add_op(out, {v}, {stored});
    Op wait = op;
    wait.kind = StepKind::swap_wait;
    wait.transfer = ops.out;
    ops.out_wait = builder_.add_op(wait, {v, stored}, {});
    const ValueId transit = add_value(v, Home::arena, true);
    Op in = transfer(StepKind::swap_in);
    in.recomputable = true;
    ops.in = builder_.add_op(in, {stored}, {transit});
    wait.transfer = ops.in;
    wait.recomputable = true;
    ops.in_wait = builder_.add_op(wait, {transit, stored}, {v}, {{transit, v}});
    // What comes back brings its views: the last op makes them, too.
    if (views_.size() == 0) return;
    for (const ValueId view : views_[v]) builder_.add_output(view);
  }

  Schedule schedule() const {
    Schedule result;
    IdVector<ValueId, char> is_out(base_.values.size(), 0);
    for (const SwapAction& action : covered_.actions) {
      if (action.kind != SwapAction::Kind::run && way_of_[action.value] == nullptr) continue;
      switch (action.kind) {
        case SwapAction::Kind::run:
          result.push_back(builder_.new_op(action.op));
          break;
        case SwapAction::Kind::copy_out:
          result.push_back(ops_of_[action.value].out);
          is_out[action.value] = 1;
          break;
        case SwapAction::Kind::copy_in:
          result.push_back(ops_of_[action.value].in);
          break;
        case SwapAction::Kind::wait: {
          const Transfers& ops = ops_of_[action.value];
          result.push_back(is_out[action.value] ? ops.out_wait : ops.in_wait);
          is_out[action.value] = 0;
          break;
        }
        case SwapAction::Kind::evict:
          break;
      }
    }
    return result;
  }

  const Problem& base_;
  const CoveredSchedule& covered_;
  ProblemBuilder builder_;
  const Rows<ValueId, ValueId> views_;
  IdVector<ValueId, const SwapWay*> way_of_;
  IdVector<ValueId, ValueId> origin_;
  IdVector<ValueId, Transfers> ops_of_;
};

}  // namespace

SwapSchedule with_transfers(const SwapModel& model, const CoveredSchedule& covered) {
  return TransferAdder(model, covered).run();
}

}  // namespace plimsoll::planner
