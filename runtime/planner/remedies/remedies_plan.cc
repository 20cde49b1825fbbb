// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remedies/remedies_plan.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "runtime/planner/problem/timeline.h"
#include "runtime/planner/remedies/codec_select.h"
#include "runtime/planner/remedies/hide_transfers.h"
#include "runtime/planner/remedies/link_bytes.h"
#include "runtime/planner/remedies/remedies_apply.h"
#include "runtime/planner/remedies/swap_schedule.h"
#include "runtime/planner/remedies/swap_search.h"

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
                std::int64_t limit, double base_seconds, double worth, const Recomputer& recompute)
      : problem_(problem),
        forms_(forms),
        selector_(problem, forms, options),
        again_(selector_.seconds_again()),
        options_(options),
        limit_(limit),
        base_seconds_(base_seconds),
        worth_(worth),
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
    for (int mask = (1 << kTiers.size()) - 1; mask >= 0; --mask) {
      PerTier<bool> tiers;
      bool there = true;
      for (const MemorySpace tier : kTiers) {
        tiers[tier] = ((mask >> tier_index(tier)) & 1) != 0;
        there = there && (!tiers[tier] || tiers_[tier]);
      }
      if (!there) continue;
      for (int codecs = compress ? (lossy_ ? 2 : 1) : 0; codecs >= 0; --codecs) {
        if (mask == 0 && codecs == 0) continue;
        if (codecs == 1 && !lossless_) continue;
        Subset subset;
        subset.tiers = tiers;
        subset.swaps = tiers != PerTier<bool>();
        subset.compress = codecs > 0;
        subset.style.lossy = codecs > 1;
        subset.style.fuse_coding = fuse_coding;
        for (const bool recompute : {true, false}) {
          if (recompute && !options_.remedies.recompute) continue;
          subset.style.recompute = recompute;
          subset.swaps ? try_swaps(subset) : try_codecs(subset.style);
          if (is_free()) return;
        }
        if ((!small_ || hinted_) && best_) return;
      }
    }
  }

  // What may be done.
  struct Subset {
    PerTier<bool> tiers;
    bool swaps = false, compress = false;
    CodecStyle style;
  };

  bool is_free() const { return best_ && best_->seconds <= base_seconds_; }

  // With a larger factor recomputing seems dearer beside the codecs.
  void try_codecs(CodecStyle style) {
    simulated_.reset();
    for (const double factor : {1.0, 4.0}) {
      if (factor > 1 && (!style.recompute || !small_)) continue;
      style.recompute_factor = factor;
      try_style(style);
      if (is_free()) return;
    }
    improve();
  }

  // Codecs are chosen first: for what the links cannot have taken away, then as if there were none,
  // then as if recomputing were dearer. What they leave alone may be swapped, and anything
  // recomputed.
  void try_swaps(const Subset& subset) {
    if (!subset.compress) return try_swaps(subset, {});
    PerTier<Tier> tiers;
    for (const MemorySpace tier : kTiers) {
      if (subset.tiers[tier]) tiers[tier] = options_[tier];
    }
    std::vector<double> seconds;
    for (const Op& op : problem_.ops) seconds.push_back(op.seconds);
    const std::vector<std::int64_t> elsewhere = bytes_in_tiers(seconds, tiers, 0);
    struct Variant {
      std::span<const std::int64_t> elsewhere;
      double factor;
    };
    std::vector<std::vector<Choice>> tried;
    for (const Variant& variant : {Variant{elsewhere, 1}, Variant{{}, 1}, Variant{{}, 4}}) {
      if (variant.factor > 1 && (!subset.style.recompute || !small_)) continue;
      CodecStyle style = subset.style;
      style.recompute_factor = variant.factor;
      std::vector<Choice> codecs = selector_.select(limit_, style, variant.elsewhere);
      const bool again = std::any_of(tried.begin(), tried.end(), [&](const auto& other) {
        return same_choices(codecs, other);
      });
      if (codecs.empty() || again) continue;
      try_swaps(subset, codecs);
      if (is_free()) return;
      tried.push_back(std::move(codecs));
    }
  }

  void try_swaps(const Subset& subset, std::span<const Choice> codecs) {
    auto problem = std::shared_ptr<const Problem>(&problem_, [](const Problem*) {});
    IdVector<ValueId, ValueId> origin(problem_.values.size());
    std::iota(origin.begin(), origin.end(), ValueId(0));
    IdVector<ValueId, char> compressed(problem_.values.size(), 0);
    if (!codecs.empty()) {
      auto applied = apply_choices(problem_, codecs, &origin);
      if (!applied.ok()) return;
      problem = std::make_shared<const Problem>(std::move(*applied));
      for (const Choice& choice : codecs) compressed[choice.value] = 1;
    }
    std::vector<Form> forms;
    for (const Form& form : forms_) {
      if (form.kind == RemedyKind::compress || !subset.tiers[space_of(form.kind)]) continue;
      if (compressed[form.value] || is_recomputed(form, subset.style)) continue;
      forms.push_back(form);
    }
    if (forms.empty()) return;
    problem = keeping_hinted(std::move(problem), forms);
    const SwapModel model(*problem, forms, options_, limit_);
    const std::vector<Schedule> starts{each_once(*problem)};
    const bool recomputes =
        subset.style.recompute && !options_.without.contains(Technique::raised_limits);
    const auto covered =
        search_swaps(model, SwapEffort::brief, recomputes ? recompute_ : Recomputer(), starts);
    if (!covered || (covered->swapped_bytes == 0 && codecs.empty())) return;
    SwapSchedule found = with_transfers(model, *covered);
    if (!is_valid(*found.problem, found.schedule) ||
        !keeps_transfers(*found.problem, found.schedule)) {
      return;
    }
    hide_transfers(*found.problem, found.schedule, limit_);
    RemedyPlan plan;
    plan.seconds = predicted_seconds(*found.problem, found.schedule);
    plan.peak = evaluate(*found.problem, found.schedule).arena_peak;
    plan.problem = std::move(found.problem);
    plan.schedule = std::move(found.schedule);
    for (ValueId& v : found.origin) v = origin[v];
    plan.origin = std::move(found.origin);
    offer(std::move(plan));
  }

  // What its author wants swapped is not recomputed instead.
  static std::shared_ptr<const Problem> keeping_hinted(std::shared_ptr<const Problem> problem,
                                                       std::span<const Form> forms) {
    const auto hinted = [&](const Form& form) {
      return problem->values[form.value].hint == Hint::swap;
    };
    if (std::none_of(forms.begin(), forms.end(), hinted)) return problem;
    auto changed = std::make_shared<Problem>(*problem);
    for (const Form& form : forms) {
      Value& value = changed->values[form.value];
      value.keep = value.keep || value.hint == Hint::swap;
    }
    return changed;
  }

  // Whether a value had better be recomputed than swapped: where its author wants it, or where that
  // takes no longer than what the copies take from compute steps.
  bool is_recomputed(const Form& form, const CodecStyle& style) const {
    const double again = again_[form.value];
    if (!style.recompute || again == kInfinite) return false;
    const Hint hint = problem_.values[form.value].hint;
    return hint == Hint::recompute ||
           (hint != Hint::swap && again <= form.out.taken_seconds + form.in.taken_seconds);
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
  void try_style(const CodecStyle& style) {
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
    const bool is_simulated = peak > limit_;
    if (is_simulated) {
      if (!recompute) return peak - limit_;
      // Time can't be won where the codecs alone take longer than the best plan.
      if (best_ && compute_seconds(*problem) >= best_->seconds) return 0;
      std::optional<Schedule> found = recompute_(*problem, limit_, {}, kFirstThatFits);
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
    if (is_simulated && over <= 0 && (!simulated_ || plan.seconds < simulated_->seconds)) {
      simulated_ = plan;
    }
    offer(std::move(plan));
    return over;
  }

  // What is computed again was simulated once for each set of choices of a subset: now it is
  // searched for, with those that came out best.
  void improve() {
    if (!simulated_ || simulated_->seconds > worth_) return;
    RemedyPlan plan = *std::exchange(simulated_, std::nullopt);
    std::optional<Schedule> found = recompute_(*plan.problem, limit_, {}, 1);
    if (!found || !keeps_transfers(*plan.problem, *found)) return;
    hide_transfers(*plan.problem, *found, limit_);
    plan.seconds = predicted_seconds(*plan.problem, *found);
    plan.peak = evaluate(*plan.problem, *found).arena_peak;
    plan.schedule = std::move(*found);
    offer(std::move(plan));
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
  const CodecSelector selector_;
  const IdVector<ValueId, double> again_;  // what recomputing a value takes
  const PlanOptions& options_;
  const std::int64_t limit_;
  const double base_seconds_, worth_;
  const Recomputer& recompute_;
  bool can_fuse_coding_ = false;  // something can be coded inside kernels
  bool lossless_ = false, lossy_ = false, small_ = true;
  PerTier<bool> tiers_;  // that something can be swapped to
  bool hinted_ = false;  // what is asked for is done where more would be possible
  std::vector<Tried> tried_;
  std::optional<RemedyPlan> best_;
  std::optional<RemedyPlan> simulated_;  // the best of a subset that one simulation made
};

}  // namespace

std::optional<RemedyPlan> plan_remedies(const Problem& problem, std::span<const Form> forms,
                                        const PlanOptions& options, std::int64_t arena_limit,
                                        double base_seconds, double worth,
                                        const Recomputer& recompute) {
  if (forms.empty()) return std::nullopt;
  return RemedyPlanner(problem, forms, options, arena_limit, base_seconds, worth, recompute).run();
}

}  // namespace plimsoll::planner
