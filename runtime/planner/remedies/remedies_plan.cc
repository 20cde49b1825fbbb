// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remedies/remedies_plan.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "runtime/planner/problem/timeline.h"
#include "runtime/planner/remedies/hide_transfers.h"
#include "runtime/planner/remedies/remedies_apply.h"
#include "runtime/planner/remedies/remedies_select.h"
#include "runtime/planner/remedies/swap_by_price.h"

namespace plimsoll::planner {
namespace {

bool same_choices(const std::vector<Choice>& a, const std::vector<Choice>& b) {
  const auto same = [](const Choice& x, const Choice& y) {
    return x.value == y.value && x.kind == y.kind && x.codec == y.codec && x.leave == y.leave &&
           x.left == y.left && x.fused_encode == y.fused_encode &&
           x.fused_readers.empty() == y.fused_readers.empty() &&
           std::equal(x.returns.begin(), x.returns.end(), y.returns.begin(), y.returns.end(),
                      [](const Return& p, const Return& q) {
                        return p.start == q.start && p.ready == q.ready;
                      });
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

class RemedyPlanner {
 public:
  RemedyPlanner(const Problem& problem, std::span<const Form> forms, const PlanOptions& options,
                std::int64_t limit, double base_seconds, const Recomputer& recompute)
      : problem_(problem),
        forms_(forms),
        selector_(problem, forms, options),
        options_(options),
        limit_(limit),
        base_seconds_(base_seconds),
        recompute_(recompute) {
    for (const Form& form : forms) {
      lossless_ = lossless_ || (form.kind == RemedyKind::compress && form.codec.lossless());
      lossy_ = lossy_ || (form.kind == RemedyKind::compress && !form.codec.lossless());
      if (form.kind != RemedyKind::compress) tiers_[space_of(form.kind)] = true;
      can_fuse_coding_ = can_fuse_coding_ || form.fused_encode || !form.fused_readers.empty();
      const Hint hint = problem.values[form.value].hint;
      hinted_ = hinted_ || hint == Hint::compress || hint == Hint::swap;
    }
    small_ = problem.op_count() <= 3'000;
  }

  // Coding inside kernels takes less, but may lead to choices that leave more behind.
  std::optional<RemedyPlan> run() {
    try_subsets(true);
    if (!best_ && can_fuse_coding_) try_subsets(false);
    return std::move(best_);
  }

 private:
  // All subsets of what there is, each by itself: the largest first, as it is likely the best.
  //
  // Why subsets: a plan with more remedies at hand is promised never to be slower than one with
  // fewer. The selection is a heuristic and may do worse with more; trying what would be tried with
  // fewer makes the promise true by construction.
  void try_subsets(bool fuse_coding) {
    const bool compress = lossless_ || lossy_;
    for (int subset = (1 << kTiers.size()) - 1; subset >= 0; --subset) {
      PerTier<bool> tiers;
      bool there = true;
      for (const MemorySpace tier : kTiers) {
        tiers[tier] = ((subset >> tier_index(tier)) & 1) != 0;
        there = there && (!tiers[tier] || tiers_[tier]);
      }
      if (!there) continue;
      for (int codecs = compress ? (lossy_ ? 2 : 1) : 0; codecs >= 0; --codecs) {
        if (subset == 0 && codecs == 0) continue;
        if (codecs == 1 && !lossless_) continue;
        SelectionStyle style;
        style.tiers = tiers;
        style.compress = codecs > 0;
        style.lossy = codecs > 1;
        style.fuse_coding = fuse_coding;
        try_mask(style);
        if (is_free() || ((!small_ || hinted_) && best_)) return;
      }
    }
  }

  bool is_free() const { return best_ && best_->seconds <= base_seconds_; }

  // One set of remedies in several styles (SelectionStyle), until one is free: with a larger
  // `factor` recomputing seems dearer beside the rest, a smaller `share` leaves more memory to
  // recompute in, and with a larger `stretch` transfers may take longer than the steps that they
  // hide behind.
  void try_mask(SelectionStyle style) {
    const bool swaps = style.swaps();
    for (const bool recompute : {true, false}) {
      if (recompute && !options_.remedies.recompute) continue;
      style.recompute = recompute;
      for (const double factor : {1.0, 4.0}) {
        if (factor > 1 && (!recompute || !style.compress || !small_)) continue;
        for (const double share : {0.75, 0.25}) {
          if (share < 0.75 && (!recompute || !swaps)) continue;
          for (const double stretch : {1.0, 1.3, 2.0, 6.0, 50.0}) {
            if (stretch > 1 && !swaps) continue;
            // The last is for what cannot be hidden at all: it stalls, where nothing else fits.
            if (stretch > (recompute ? 1.3 : best_ ? 6.0 : 50.0)) continue;
            style.recompute_factor = factor;
            style.waiting_share = share;
            style.stretch = stretch;
            try_style(style);
            if (is_free()) return;
          }
        }
      }
      if (recompute && swaps) try_prices(style);
      if (is_free()) return;
    }
  }

  void try_prices(SelectionStyle style) {
    style.recompute_factor = 1;
    SelectionStyle codecs = style;
    codecs.tiers = {};
    auto base = std::make_shared<PricedBase>();
    base->problem = std::shared_ptr<const Problem>(&problem_, [](const Problem*) {});
    base->origin.resize(problem_.values.size());
    std::iota(base->origin.begin(), base->origin.end(), ValueId(0));
    IdVector<ValueId, char> compressed(problem_.values.size(), 0);
    if (style.compress) {
      const std::vector<Choice> choices = selector_.select(limit_, codecs);
      auto applied = apply_choices(problem_, choices, &base->origin);
      if (!applied.ok()) return;
      base->problem = std::make_shared<const Problem>(std::move(*applied));
      for (const Choice& choice : choices) compressed[choice.value] = 1;
    }
    for (const Form& form : forms_) {
      const bool wanted = form.kind != RemedyKind::compress && style.tiers[space_of(form.kind)];
      if (wanted && !compressed[form.value]) {
        base->forms.push_back(form);
      }
    }
    base->again = selector_.seconds_again();
    base->again.resize(base->problem->values.size(), 0);
    const auto share = [&](double part) {
      return static_cast<std::int64_t>(part * static_cast<double>(limit_));
    };
    style.waiting_share = 0.6;
    for (const double stretch : {1.0, 1.3}) {
      style.stretch = stretch;
      const std::vector<Choice> chosen = selector_.select(limit_, style);
      for (const double margin : {0.01, 0.05}) {
        if (chosen.empty() || is_free()) continue;
        PricedSwaps priced;
        priced.engine_price = 0.05;
        priced.margin = share(margin);
        try_priced(base, priced, chosen);
      }
      if (!small_) break;
    }
    for (const double price : {0.3, 0.1, 0.6}) {
      if (is_free()) return;
      PricedSwaps priced;
      priced.engine_price = price;
      priced.margin = share(0.02);
      try_priced(base, priced, {});
      if (!small_) break;
    }
  }

  // What swaps by price start from: the problem with its codecs chosen, and what may be swapped.
  struct PricedBase {
    std::shared_ptr<const Problem> problem;
    IdVector<ValueId, ValueId> origin;
    std::vector<Form> forms;
    IdVector<ValueId, double> again;
  };

  void try_priced(const std::shared_ptr<const PricedBase>& base, PricedSwaps priced,
                  const std::vector<Choice>& chosen) {
    priced.chosen = chosen;
    auto found = swap_by_price(*base->problem, base->forms, options_, base->again, limit_, priced,
                               recompute_);
    if (!found) return;
    RemedyPlan plan;
    plan.seconds = predicted_seconds(*found->problem, found->schedule);
    plan.peak = evaluate(*found->problem, found->schedule).arena_peak;
    plan.problem = std::move(found->problem);
    plan.schedule = std::move(found->schedule);
    for (ValueId& v : found->origin) v = base->origin[v];
    plan.origin = std::move(found->origin);
    offer(std::move(plan));
  }

  // The fastest under the limit; of equally fast ones, that of the least peak.
  void offer(RemedyPlan plan) {
    if (plan.peak > limit_) return;
    if (!best_ || std::tie(plan.seconds, plan.peak) < std::tie(best_->seconds, best_->peak)) {
      best_ = std::move(plan);
    }
  }

  // Without recomputing, what comes and goes needs a little more than the selection reckons with:
  // it aims lower until the result fits.
  void try_style(const SelectionStyle& style) {
    const int aims = style.recompute ? 1 : 4;
    std::int64_t aim = limit_;
    for (int i = 0; i < aims && aim >= 0; ++i) {
      std::vector<Choice> choices = selector_.select(aim, style);
      if (choices.empty()) return;
      const bool again = std::any_of(tried_.begin(), tried_.end(), [&](const Tried& t) {
        return t.recompute == style.recompute && same_choices(t.choices, choices);
      });
      if (again) return;
      const std::int64_t over = try_choices(choices, style.recompute);
      tried_.push_back({std::move(choices), style.recompute});
      if (over <= 0) return;
      aim = std::min(aim - 64, aim - over);
    }
  }

  // Bytes over the limit; 0 where no lower aim would help either.
  std::int64_t try_choices(const std::vector<Choice>& choices, bool recompute) {
    RemedyPlan plan;
    auto applied = apply_choices(problem_, choices, &plan.origin);
    if (!applied.ok()) return 0;
    auto problem = std::make_shared<const Problem>(std::move(*applied));
    Schedule schedule = each_once(*problem);
    const std::int64_t peak = evaluate(*problem, schedule).arena_peak;
    if (peak > limit_) {
      if (!recompute) return peak - limit_;
      // Time can't be won where the codecs alone take longer than the best plan.
      if (best_ && compute_seconds(*problem) >= best_->seconds) return 0;
      std::optional<Schedule> found = recompute_(*problem, limit_);
      if (!found) return peak - limit_;
      schedule = std::move(*found);
    }
    if (!keeps_transfers(*problem, schedule)) return 0;
    hide_transfers(*problem, schedule, limit_);
    plan.seconds = predicted_seconds(*problem, schedule);
    plan.peak = evaluate(*problem, schedule).arena_peak;
    plan.problem = std::move(problem);
    plan.schedule = std::move(schedule);
    const std::int64_t over = plan.peak - limit_;
    offer(std::move(plan));
    return over;
  }

  static double compute_seconds(const Problem& problem) {
    double seconds = 0;
    for (const Op& op : problem.ops) {
      if (op.engine < 0) seconds += op.seconds;
    }
    return seconds;
  }

  struct Tried {
    std::vector<Choice> choices;
    bool recompute;
  };

  const Problem& problem_;
  const std::span<const Form> forms_;
  const RemedySelector selector_;
  const PlanOptions& options_;
  const std::int64_t limit_;
  const double base_seconds_;
  const Recomputer& recompute_;
  bool can_fuse_coding_ = false;  // something can be coded inside kernels
  bool lossless_ = false, lossy_ = false, small_ = true;
  PerTier<bool> tiers_;  // that something can be swapped to
  bool hinted_ = false;  // what is asked for is done where more would be possible
  std::vector<Tried> tried_;
  std::optional<RemedyPlan> best_;
};

}  // namespace

std::optional<RemedyPlan> plan_remedies(const Problem& problem, std::span<const Form> forms,
                                        const PlanOptions& options, std::int64_t arena_limit,
                                        double base_seconds, const Recomputer& recompute) {
  if (forms.empty()) return std::nullopt;
  return RemedyPlanner(problem, forms, options, arena_limit, base_seconds, recompute).run();
}

}  // namespace plimsoll::planner
