// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remedies/swap_by_price.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/planner/problem/timeline.h"
#include "runtime/planner/remedies/hide_transfers.h"
#include "runtime/planner/remedies/remedies_apply.h"

namespace plimsoll::planner {
namespace {

class PriceSwapper {
 public:
  PriceSwapper(const Problem& base, std::span<const Form> forms, const PlanOptions& options,
               std::span<const double> seconds_again, const PricedSwaps& style)
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
  void choose(std::span<const Form> forms, const PlanOptions& options,
              std::span<const double> seconds_again) {
    struct Candidate {
      double score;
      const Form* form;
    };
    std::vector<Candidate> candidates;
    for (const Form& form : forms) {
      if (form.kind == RemedyKind::compress) continue;
      double score = seconds_again[at(form.value)] / (form.out_seconds + form.in_seconds);
      const Hint hint = base_.values[at(form.value)].hint;
      if (hint == Hint::recompute && seconds_again[at(form.value)] < 1e9) continue;
      if (hint == Hint::swap) score *= 1e6;
      if (score > style_.engine_price || !style_.chosen.empty())
        candidates.push_back({score, &form});
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
    left_before_.assign(base_.values.size(), -1);
    if (!style_.chosen.empty()) {
      std::erase_if(candidates, [&](const Candidate& c) {
        return std::none_of(style_.chosen.begin(), style_.chosen.end(), [&](const Choice& choice) {
          return choice.value == c.form->value && choice.kind == c.form->kind;
        });
      });
      for (const Choice& choice : style_.chosen) {
        if (choice.kind != RemedyKind::compress) left_before_[at(choice.value)] = choice.left;
      }
    }
    PerTier<Tier> free = options;
    for (const Candidate& c : candidates) {
      std::int64_t& left = free[space_of(c.form->kind)].bytes;
      if (form_of_[at(c.form->value)] != nullptr || c.form->bytes > left) continue;
      left -= c.form->bytes;
      form_of_[at(c.form->value)] = c.form;
      chosen_.push_back(c.form->value);
    }
    for (const ValueId v : chosen_) {
      if (left_before_[at(v)] >= 0) waits_before_[left_before_[at(v)]].push_back(v);
    }
    std::sort(chosen_.begin(), chosen_.end(), [&](ValueId a, ValueId b) {
      const OpId p = base_.values[at(a)].producer, q = base_.values[at(b)].producer;
      return p != q ? p < q : a < b;
    });
  }

  static void close(Problem& problem) {
    problem.inputs.close();
    problem.reads.close();
    problem.outputs.close();
  }

  void copy_frame(Problem& to) const {
    to.graph = base_.graph;
    to.values = base_.values;
    to.results = base_.results;
    to.view_of = base_.view_of;
    to.sliced = base_.sliced;
    to.codings = base_.codings;
    to.parameter_bytes = base_.parameter_bytes;
    to.output_bytes = base_.output_bytes;
  }

  void copy_op(Problem& to, OpId op) const {
    const OpId id = to.op_count();
    to.ops.push_back(base_.ops[at(op)]);
    to.variant.push_back(base_.variant[at(op)]);
    for (const ValueId v : base_.inputs[op]) to.inputs.push(v);
    for (const ValueId v : base_.reads[op]) to.reads.push(v);
    for (const ValueId v : base_.outputs[op]) {
      to.outputs.push(v);
      if (v >= 0) to.values[at(v)].producer = id;
    }
    to.reuse.push_back(base_.reuse[at(op)]);
    close(to);
  }

  static void add_op(Problem& to, const Op& op, std::initializer_list<ValueId> reads,
                     std::initializer_list<ValueId> outputs) {
    to.ops.push_back(op);
    to.variant.push_back(-1);
    to.reuse.emplace_back();
    for (const ValueId v : reads) {
      to.inputs.push(v);
      to.reads.push(v);
    }
    for (const ValueId v : outputs) to.outputs.push(v);
    close(to);
  }

  void finish(Problem& problem, const std::vector<OpId>& new_op) const {
    for (Value& value : problem.values) {
      if (value.overwritten != kNever) value.overwritten = new_op[at(value.overwritten)];
    }
    problem.uses = find_uses(problem.reads, problem.values.size());
    problem.deadline = find_deadlines(problem);
  }

  // What the search sees: right after its producer a chosen value is made once more, by an op that
  // needs nothing, and that is what makes it again.
  Problem search_problem() {
    Problem problem;
    copy_frame(problem);
    std::vector<OpId> new_op;
    struct Mark {
      OpId op;
      ValueId value;
    };
    std::vector<Mark> marks;
    std::size_t next = 0;
    views_ = list_views(base_);
    for (OpId op = 0; op < base_.op_count(); ++op) {
      const auto waits = waits_before_.find(op);
      if (waits != waits_before_.end()) {
        for (const ValueId v : waits->second) {
          Op wait;
          wait.kind = StepKind::swap_wait;
          problem.values[at(v)].kept_until = problem.op_count();
          base_of_.push_back(-1);
          value_of_.push_back(-1);
          waits_for_.resize(at(problem.op_count()) + 1, -1);
          waits_for_.back() = v;
          add_op(problem, wait, {v}, {});
        }
      }
      new_op.push_back(problem.op_count());
      base_of_.push_back(op);
      value_of_.push_back(-1);
      copy_op(problem, op);
      if (problem.ops.back().transfer >= 0) {
        problem.ops.back().transfer = new_op[at(problem.ops.back().transfer)];
      }
      for (; next < chosen_.size() && base_.values[at(chosen_[next])].producer == op; ++next) {
        const ValueId v = chosen_[next];
        const Form& form = *form_of_[at(v)];
        Op again;
        again.kind = StepKind::copy;
        again.seconds = style_.engine_price * (form.in_seconds + form.out_seconds);
        again.recomputable = true;
        // Not before the value was made once: its producer leaves a mark that costs nothing.
        Value mark;
        mark.home = Home::host;
        mark.producer = new_op.back();
        problem.values.push_back(mark);
        if (!problem.view_of.empty()) problem.view_of.push_back(-1);
        marks.push_back({new_op.back(), static_cast<ValueId>(problem.values.size()) - 1});
        problem.values[at(v)].producer = problem.op_count();
        base_of_.push_back(-1);
        value_of_.push_back(v);
        add_op(problem, again, {marks.back().value}, {v});
        add_views(problem, v);
      }
    }
    waits_for_.resize(problem.ops.size(), -1);
    Rows outputs;
    std::size_t mark = 0;
    for (OpId op = 0; op < problem.op_count(); ++op) {
      for (const ValueId v : problem.outputs[op]) outputs.push(v);
      for (; mark < marks.size() && marks[mark].op == op; ++mark) outputs.push(marks[mark].value);
      outputs.close();
    }
    problem.outputs = std::move(outputs);
    finish(problem, new_op);
    return problem;
  }

  // The problem with the transfers of those values that come back at all.
  Problem transfer_problem(std::span<const OpId> schedule, std::vector<ValueId>& origin) {
    std::vector<std::int32_t> makings(base_.values.size(), 0);
    for (const OpId op : schedule) {
      if (value_of_[at(op)] >= 0) ++makings[at(value_of_[at(op)])];
    }
    Problem problem;
    copy_frame(problem);
    origin.resize(base_.values.size());
    std::iota(origin.begin(), origin.end(), 0);
    ops_of_.assign(base_.values.size(), {});
    std::size_t next = 0;
    for (OpId op = 0; op < base_.op_count(); ++op) {
      new_base_.push_back(problem.op_count());
      copy_op(problem, op);
      if (problem.ops.back().transfer >= 0) {
        problem.ops.back().transfer = new_base_[at(problem.ops.back().transfer)];
      }
      for (; next < chosen_.size() && base_.values[at(chosen_[next])].producer == op; ++next) {
        if (makings[at(chosen_[next])] > 1) add_transfers(problem, chosen_[next], origin);
      }
    }
    finish(problem, new_base_);
    return problem;
  }

  ValueId add_value(Problem& problem, ValueId of, Home home, bool keep, OpId producer,
                    std::vector<ValueId>& origin) const {
    Value value = base_.values[at(of)];
    value.home = home;
    value.index = -1;
    value.keep = keep;
    value.overwritten = kNever;
    value.producer = producer;
    problem.values.push_back(value);
    if (!problem.view_of.empty()) problem.view_of.push_back(-1);
    origin.push_back(of);
    return static_cast<ValueId>(problem.values.size()) - 1;
  }

  void add_transfers(Problem& problem, ValueId v, std::vector<ValueId>& origin) {
    ++transfers_;
    const Form& form = *form_of_[at(v)];
    const MemorySpace tier = space_of(form.kind);
    Transfers& ops = ops_of_[at(v)];
    const Value& value = base_.values[at(v)];
    Op op;
    op.instruction = value.source;
    op.leaf = value.leaf;
    ops.out = problem.op_count();
    const ValueId stored = add_value(problem, v, placement_on(tier), false, ops.out, origin);
    Op out = op;
    out.kind = StepKind::swap_out;
    out.engine = engine_of(tier, true);
    out.seconds = form.out_seconds;
    out.taken_seconds = form.compute_share * form.out_seconds;
    add_op(problem, out, {v}, {stored});
    ops.out_wait = problem.op_count();
    Op wait = op;
    wait.kind = StepKind::swap_wait;
    wait.transfer = ops.out;
    add_op(problem, wait, {v, stored}, {});
    ops.in = problem.op_count();
    const ValueId transit = add_value(problem, v, Home::arena, true, ops.in, origin);
    Op in = op;
    in.kind = StepKind::swap_in;
    in.engine = engine_of(tier, false);
    in.seconds = form.in_seconds;
    in.taken_seconds = form.compute_share * form.in_seconds;
    in.recomputable = true;
    add_op(problem, in, {stored}, {transit});
    ops.in_wait = problem.op_count();
    wait.transfer = ops.in;
    wait.recomputable = true;
    add_op(problem, wait, {transit, stored}, {v});
    problem.reuse.back().push_back({transit, v});
    add_views(problem, v);
  }

  // What comes back brings its views: the last op makes them, too.
  void add_views(Problem& problem, ValueId v) const {
    if (views_.size() == 0) return;
    for (const ValueId view : views_[v]) problem.outputs.push(view);
    problem.outputs.begin.back() = static_cast<std::int32_t>(problem.outputs.items.size());
  }

  // Whether an op of the search's problem may write its result over `v`.
  bool may_take(OpId op, ValueId v) const {
    if (base_of_[at(op)] < 0) return false;
    const auto& row = base_.reuse[at(base_of_[at(op)])];
    return std::any_of(row.begin(), row.end(), [&](const Reuse& r) { return r.input == v; });
  }

  // Copies start as soon as the value is made, are waited for when it was to be given up, and come
  // back where it was to be made again.
  Schedule translate(std::span<const OpId> schedule) const {
    std::vector<std::vector<ValueId>> leaves_before(schedule.size()), leaves(schedule.size());
    std::vector<std::int32_t> last_touch(base_.values.size(), -1);
    std::vector<char> left(base_.values.size(), 0);
    for (std::size_t t = 0; t < schedule.size(); ++t) {
      const ValueId v = value_of_[at(schedule[t])];
      if (v >= 0) {
        if (last_touch[at(v)] >= 0 && ops_of_[at(v)].out >= 0 && left_before_[at(v)] < 0 &&
            !left[at(v)]) {
          left[at(v)] = 1;
          const std::int32_t last = last_touch[at(v)];
          (may_take(schedule[at(last)], v) ? leaves_before : leaves)[at(last)].push_back(v);
        }
        last_touch[at(v)] = static_cast<std::int32_t>(t);
        continue;
      }
      if (base_of_[at(schedule[t])] < 0) continue;
      for (const ValueId r : base_.reads[base_of_[at(schedule[t])]]) {
        if (form_of_[at(r)] != nullptr) last_touch[at(r)] = static_cast<std::int32_t>(t);
      }
    }
    Schedule result;
    std::vector<char> out(base_.values.size(), 0);
    for (std::size_t t = 0; t < schedule.size(); ++t) {
      for (const ValueId gone : leaves_before[t]) result.push_back(ops_of_[at(gone)].out_wait);
      const ValueId v = value_of_[at(schedule[t])];
      const ValueId waits = waits_for_[at(schedule[t])];
      if (waits >= 0) {
        if (ops_of_[at(waits)].out >= 0) result.push_back(ops_of_[at(waits)].out_wait);
      } else if (v < 0) {
        result.push_back(new_base_[at(base_of_[at(schedule[t])])]);
      } else if (ops_of_[at(v)].out >= 0) {
        const Transfers& ops = ops_of_[at(v)];
        if (!out[at(v)]) {
          out[at(v)] = 1;
          result.push_back(ops.out);
        } else {
          result.push_back(ops.in);
          result.push_back(ops.in_wait);
        }
      }
      for (const ValueId gone : leaves[t]) result.push_back(ops_of_[at(gone)].out_wait);
    }
    return result;
  }

  struct Transfers {
    OpId out = -1, out_wait = -1, in = -1, in_wait = -1;
  };

  const Problem& base_;
  const PricedSwaps style_;
  std::vector<const Form*> form_of_;  // per value
  std::vector<ValueId> chosen_;       // by producer
  std::vector<OpId> base_of_;         // per op of the search's problem; -1: a making again
  std::vector<ValueId> value_of_;     // of which value; -1
  std::vector<OpId> left_before_;     // per value, the base op by which its copy out is over; -1
  std::map<OpId, std::vector<ValueId>> waits_before_;
  std::vector<ValueId> waits_for_;  // per op of the search's problem; -1
  std::vector<OpId> new_base_;      // per base op, in the result
  std::vector<Transfers> ops_of_;   // per value
  Rows views_;
  int transfers_ = 0;
};

}  // namespace

std::optional<SwapSchedule> swap_by_price(const Problem& problem, std::span<const Form> forms,
                                          const PlanOptions& options,
                                          std::span<const double> seconds_again,
                                          std::int64_t arena_limit, const PricedSwaps& style,
                                          const Recomputer& recompute) {
  return PriceSwapper(problem, forms, options, seconds_again, style).run(arena_limit, recompute);
}

}  // namespace plimsoll::planner
