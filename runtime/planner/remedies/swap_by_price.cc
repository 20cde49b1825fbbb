// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remedies/swap_by_price.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "runtime/planner/problem/problem_builder.h"
#include "runtime/planner/problem/timeline.h"
#include "runtime/planner/remedies/hide_transfers.h"
#include "runtime/planner/remedies/remedies_apply.h"

// Swapping as recomputation.
//
// What is searched is a problem in which a chosen value v has a second producer, a copy that needs
// nothing and takes `engine_price` times its transfers:
//   op 2        v, and a mark without bytes
//   copy v      reads the mark, makes v "again" at once; the first copy out will begin here
//   op 3        reads v
//   op 9        reads v
// A search that recomputes (remat/) may run `copy v` again before op 9: that will be a swap_in. So
// it decides when to evict and restore v by the same means as for values that are computed, and may
// restore it for another recomputation as well, which choices made beforehand (remedies_select.h)
// cannot. The mark makes sure that the copy never comes before the value.
//
// What comes out is translated back: the first `copy v` becomes the start of v's copy out, each
// later one a swap_in and its wait. The copy out is waited for where v was last touched before it
// came back for the first time. How far the transfers really hide shows only now (hide_transfers):
// the price of the engine's time was a guess, so several are tried.

namespace plimsoll::planner {
namespace {

class PriceSwapper {
 public:
  PriceSwapper(const Problem& base, std::span<const Form> forms, const PlanOptions& options,
               const IdVector<ValueId, double>& seconds_again, const PricedSwaps& style)
      : base_(base), style_(style) {
    form_of_.assign(base.values.size(), nullptr);
    choose(forms, options, seconds_again);
  }

  std::optional<SwapSchedule> run(std::int64_t limit, const Recomputer& recompute) {
    if (chosen_.empty()) return std::nullopt;
    const Problem search = search_problem();
    const auto found = recompute(search, std::max<std::int64_t>(0, limit - style_.margin));
    if (!found) return std::nullopt;
    SwapSchedule result;
    result.problem = std::make_shared<const Problem>(transfer_problem(*found, result.origin));
    if (transfers_ == 0) return std::nullopt;
    result.schedule = translate(*found);
    if (!is_valid(*result.problem, result.schedule) ||
        !keeps_transfers(*result.problem, result.schedule)) {
      return std::nullopt;
    }
    hide_transfers(*result.problem, result.schedule, limit);
    return result;
  }

 private:
  // The values with the most to win by the engines' time, as far as the tiers hold them.
  //
  // The score is seconds of recomputation per second of transfer. Those above the price are
  // candidates; when a selection was made before (`chosen`), just its values are.
  void choose(std::span<const Form> forms, const PlanOptions& options,
              const IdVector<ValueId, double>& seconds_again) {
    struct Candidate {
      double score;
      const Form* form;
    };
    std::vector<Candidate> candidates;
    for (const Form& form : forms) {
      if (form.kind == RemedyKind::compress) continue;
      double score = seconds_again[form.value] / (form.out_seconds + form.in_seconds);
      const Hint hint = base_.values[form.value].hint;
      if (hint == Hint::recompute && seconds_again[form.value] < 1e9) continue;
      if (hint == Hint::swap) score *= 1e6;
      if (score > style_.engine_price || !style_.chosen.empty())
        candidates.push_back({score, &form});
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
    left_before_.resize(base_.values.size());
    if (!style_.chosen.empty()) {
      std::erase_if(candidates, [&](const Candidate& c) {
        return std::none_of(style_.chosen.begin(), style_.chosen.end(), [&](const Choice& choice) {
          return choice.value == c.form->value && choice.kind == c.form->kind;
        });
      });
      for (const Choice& choice : style_.chosen) {
        if (choice.kind != RemedyKind::compress) left_before_[choice.value] = choice.left;
      }
    }
    PerTier<Tier> free = options;
    for (const Candidate& c : candidates) {
      std::int64_t& left = free[space_of(c.form->kind)].bytes;
      if (form_of_[c.form->value] != nullptr || c.form->bytes > left) continue;
      left -= c.form->bytes;
      form_of_[c.form->value] = c.form;
      chosen_.push_back(c.form->value);
    }
    for (const ValueId v : chosen_) {
      if (left_before_[v] >= 0) waits_before_[left_before_[v]].push_back(v);
    }
    std::sort(chosen_.begin(), chosen_.end(), [&](ValueId a, ValueId b) {
      const OpId p = base_.values[a].producer, q = base_.values[b].producer;
      return p != q ? p < q : a < b;
    });
  }

  // What the search sees: right after its producer a chosen value is made once more, by an op that
  // needs nothing, and that is what makes it again.
  Problem search_problem() {
    ProblemBuilder builder(base_);
    std::size_t next = 0;
    views_ = list_views(base_);
    for (const OpId op : base_.ops.ids()) {
      if (const auto waits = waits_before_.find(op); waits != waits_before_.end()) {
        for (const ValueId v : waits->second) {
          Op wait;
          wait.kind = StepKind::swap_wait;
          builder.value(v).kept_until = builder.add_op(wait, {v}, {});
          stands_for_.push_back({.waits_for = v});
        }
      }
      const std::size_t first = next;
      while (next < chosen_.size() && base_.values[chosen_[next]].producer == op) ++next;
      const std::span<const ValueId> made(chosen_.data() + first, next - first);
      const OpId id = copy_with_marks(builder, op, made);
      stands_for_.push_back({.base = op});
      for (std::size_t k = 0; k < made.size(); ++k) {
        const Form& form = *form_of_[made[k]];
        Op again;
        again.kind = StepKind::copy;
        again.seconds = style_.engine_price * (form.in_seconds + form.out_seconds);
        again.recomputable = true;
        const ValueId mark = *(builder.problem().outputs[id].end() - std::ssize(made) +
                               static_cast<std::ptrdiff_t>(k));
        builder.value(made[k]).producer = builder.add_op(again, {mark}, {made[k]});
        stands_for_.push_back({.value = made[k]});
        add_views(builder, made[k]);
      }
    }
    return builder.finish();
  }

  // A value is not recomputed before it was made once: for each of `made`, its producer leaves a
  // mark besides, which costs nothing.
  static OpId copy_with_marks(ProblemBuilder& builder, OpId op, std::span<const ValueId> made) {
    const OpId id = builder.next_op();
    return builder.copy_op(op, [&](ProblemBuilder::Row& row) {
      for (std::size_t k = 0; k < made.size(); ++k) {
        Value mark;
        mark.home = Home::host;
        mark.producer = id;
        row.outputs.push_back(builder.add_value(mark));
      }
    });
  }

  // The problem with the transfers of those values that come back at all.
  Problem transfer_problem(std::span<const OpId> schedule, IdVector<ValueId, ValueId>& origin) {
    IdVector<ValueId, std::int32_t> makings(base_.values.size(), 0);
    for (const OpId op : schedule) {
      if (stands_for_[op].value >= 0) ++makings[stands_for_[op].value];
    }
    ProblemBuilder builder(base_);
    origin.resize(base_.values.size());
    std::iota(origin.begin(), origin.end(), ValueId(0));
    ops_of_.assign(base_.values.size(), {});
    std::size_t next = 0;
    for (const OpId op : base_.ops.ids()) {
      new_base_.push_back(builder.copy_op(op));
      for (; next < chosen_.size() && base_.values[chosen_[next]].producer == op; ++next) {
        if (makings[chosen_[next]] > 1) add_transfers(builder, chosen_[next], origin);
      }
    }
    return builder.finish();
  }

  ValueId add_value(ProblemBuilder& builder, ValueId of, Home home, bool keep,
                    IdVector<ValueId, ValueId>& origin) const {
    Value value = base_.values[of];
    value.home = home;
    value.index = -1;
    value.keep = keep;
    value.overwritten = kNever;
    value.producer = builder.next_op();
    origin.push_back(of);
    return builder.add_value(value);
  }

  void add_transfers(ProblemBuilder& builder, ValueId v, IdVector<ValueId, ValueId>& origin) {
    ++transfers_;
    const Form& form = *form_of_[v];
    const MemorySpace tier = space_of(form.kind);
    Transfers& ops = ops_of_[v];
    const Value& value = base_.values[v];
    Op op;
    op.instruction = value.source;
    op.leaf = value.leaf;
    const ValueId stored = add_value(builder, v, placement_on(tier), false, origin);
    Op out = op;
    out.kind = StepKind::swap_out;
    out.engine = engine_of(tier, true);
    out.seconds = form.out_seconds;
    out.taken_seconds = form.compute_share * form.out_seconds;
    ops.out = builder.add_op(out, {v}, {stored});
    Op wait = op;
    wait.kind = StepKind::swap_wait;
    wait.transfer = ops.out;
    ops.out_wait = builder.add_op(wait, {v, stored}, {});
    const ValueId transit = add_value(builder, v, Home::arena, true, origin);
    Op in = op;
    in.kind = StepKind::swap_in;
    in.engine = engine_of(tier, false);
    in.seconds = form.in_seconds;
    in.taken_seconds = form.compute_share * form.in_seconds;
    in.recomputable = true;
    ops.in = builder.add_op(in, {stored}, {transit});
    wait.transfer = ops.in;
    wait.recomputable = true;
    ops.in_wait = builder.add_op(wait, {transit, stored}, {v}, {{transit, v}});
    add_views(builder, v);
  }

  // What comes back brings its views: the last op makes them, too.
  void add_views(ProblemBuilder& builder, ValueId v) const {
    if (views_.size() == 0) return;
    for (const ValueId view : views_[v]) builder.add_output(view);
  }

  // Whether an op of the search's problem may write its result over `v`.
  bool may_take(OpId op, ValueId v) const {
    if (stands_for_[op].base < 0) return false;
    const auto& row = base_.reuse[stands_for_[op].base];
    return std::any_of(row.begin(), row.end(), [&](const Reuse& r) { return r.input == v; });
  }

  // Copies start as soon as the value is made, are waited for when it was to be evicted, and come
  // back where it was to be recomputed.
  Schedule translate(std::span<const OpId> schedule) const {
    std::vector<std::vector<ValueId>> leaves_before(schedule.size()), leaves(schedule.size());
    IdVector<ValueId, std::int32_t> last_touch(base_.values.size(), -1);
    IdVector<ValueId, char> left(base_.values.size(), 0);
    for (std::size_t t = 0; t < schedule.size(); ++t) {
      const ValueId v = stands_for_[schedule[t]].value;
      if (v >= 0) {
        if (last_touch[v] >= 0 && ops_of_[v].out >= 0 && left_before_[v] < 0 && !left[v]) {
          left[v] = 1;
          const std::int32_t last = last_touch[v];
          (may_take(schedule[at(last)], v) ? leaves_before : leaves)[at(last)].push_back(v);
        }
        last_touch[v] = static_cast<std::int32_t>(t);
        continue;
      }
      if (stands_for_[schedule[t]].base < 0) continue;
      for (const ValueId r : base_.reads[stands_for_[schedule[t]].base]) {
        if (form_of_[r] != nullptr) last_touch[r] = static_cast<std::int32_t>(t);
      }
    }
    Schedule result;
    IdVector<ValueId, char> out(base_.values.size(), 0);
    for (std::size_t t = 0; t < schedule.size(); ++t) {
      for (const ValueId gone : leaves_before[t]) result.push_back(ops_of_[gone].out_wait);
      const ValueId v = stands_for_[schedule[t]].value;
      const ValueId waits = stands_for_[schedule[t]].waits_for;
      if (waits >= 0) {
        if (ops_of_[waits].out >= 0) result.push_back(ops_of_[waits].out_wait);
      } else if (v < 0) {
        result.push_back(new_base_[stands_for_[schedule[t]].base]);
      } else if (ops_of_[v].out >= 0) {
        const Transfers& ops = ops_of_[v];
        if (!out[v]) {
          out[v] = 1;
          result.push_back(ops.out);
        } else {
          result.push_back(ops.in);
          result.push_back(ops.in_wait);
        }
      }
      for (const ValueId gone : leaves[t]) result.push_back(ops_of_[gone].out_wait);
    }
    return result;
  }

  // What an op of the search's problem is: an op of the base, the recomputation of a value, or the
  // wait for the copy of one.
  struct StandsFor {
    OpId base = OpId();
    ValueId value = ValueId(), waits_for = ValueId();
  };
  struct Transfers {
    OpId out, out_wait, in, in_wait;
  };

  const Problem& base_;
  const PricedSwaps style_;
  IdVector<ValueId, const Form*> form_of_;
  std::vector<ValueId> chosen_;           // by producer
  IdVector<OpId, StandsFor> stands_for_;  // per op of the search's problem
  IdVector<ValueId, OpId> left_before_;   // the base op by which its copy out is over; -1
  std::map<OpId, std::vector<ValueId>> waits_before_;
  IdVector<OpId, OpId> new_base_;        // per base op, in the result
  IdVector<ValueId, Transfers> ops_of_;  // per value
  Rows<ValueId, ValueId> views_;
  int transfers_ = 0;
};

}  // namespace

std::optional<SwapSchedule> swap_by_price(const Problem& problem, std::span<const Form> forms,
                                          const PlanOptions& options,
                                          const IdVector<ValueId, double>& seconds_again,
                                          std::int64_t arena_limit, const PricedSwaps& style,
                                          const Recomputer& recompute) {
  return PriceSwapper(problem, forms, options, seconds_again, style).run(arena_limit, recompute);
}

}  // namespace plimsoll::planner
