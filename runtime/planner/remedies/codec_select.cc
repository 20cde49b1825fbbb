// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remedies/codec_select.h"

#include <algorithm>

#include "runtime/base/index.h"
#include "runtime/planner/flow/line_flow.h"
#include "runtime/planner/remedies/remedies_find.h"

// Choosing what to compress.
//
// Two ways compete for every interval of a value between two touches: recompute it (the seconds of
// its recompute set), compress it (encode and decode seconds, its encoded bytes stay). What they
// have in common is bytes over time steps, so they are compared by a price. The cheapest way of
// each interval but keeping becomes a stretch of line_flow.h: its bytes, and the seconds that
// keeping saves. The flow divides the memory as if parts of values could be kept. An interval of
// which it keeps less than all, and whose cheapest way is a form, gets that form; an interval whose
// cheapest way is to recompute needs no choice: whoever schedules the problem does that by itself.
// What links take away (swap_search.h) comes off what is needed beforehand.
//
// Example: two values of 100 MB are idle across a time step that lacks 100 MB. A takes 8 ms to
// recompute, or 3 ms and 25 MB as code; B takes 2 ms to recompute. By byte freed B is the cheapest
// (0.02 ms a MB against A's 0.04): it is left to recomputation, and A is kept as it is.
//
// Hints come first: what its author wants compressed or recomputed counts as a millionth of its
// cost (kHinted).

namespace plimsoll::planner {
namespace {

// Ancestors that the price of recomputing one value looks at.
constexpr std::size_t kMostSearched = 24;
// What is asked for goes first.
constexpr double kHinted = 1e-6;

}  // namespace

CodecSelector::CodecSelector(const Problem& problem, std::span<const Form> forms,
                             const PlanOptions& options)
    : problem_(problem), forms_(forms), options_(options) {
  Schedule once = each_once(problem);
  evaluate(problem, once, &profile_);
  stamp_.assign(problem.values.size(), 0);
  first_form_.assign(problem.values.size() + 1, 0);
  for (const Form& form : forms) ++first_form_[form.value + 1];
  for (const ValueId v : problem.values.ids()) first_form_[v + 1] += first_form_[v];
  list_intervals();
}

void CodecSelector::list_intervals() {
  first_interval_.push_back(0);
  for (const ValueId v : problem_.values.ids()) {
    const Value& value = problem_.values[v];
    if (value.home == Home::arena && value.producer >= 0 && !value.live_out && !value.keep &&
        value.bytes > 0 && value.bytes >= options_.min_bytes) {
      OpId before = value.producer;
      for (const OpId use : problem_.uses[v]) {
        if (use > before + 1) {
          intervals_.push_back({v, before + 1, use - 1, use, recompute_set_seconds(v, use)});
        }
        before = use;
      }
    }
    first_interval_.push_back(static_cast<std::int32_t>(intervals_.size()));
  }
}

// What it takes to make `v` again at op `ready` when everything is there that is read after it.
double CodecSelector::recompute_set_seconds(ValueId v, OpId ready) {
  if (problem_.deadline[v] < ready) return kInfinite;
  ++round_;
  search_.assign(1, v);
  stamp_[v] = round_;
  double seconds = 0;
  for (std::size_t i = 0; i < search_.size() && i < kMostSearched; ++i) {
    const OpId producer = problem_.values[search_[i]].producer;
    if (!problem_.ops[producer].recomputable) return kInfinite;
    seconds += problem_.ops[producer].seconds;
    for (const ValueId r : problem_.reads[producer]) {
      const Value& input = problem_.values[r];
      if (input.home != Home::arena || input.producer < 0 || input.live_out) continue;
      if (stamp_[r] == round_ || problem_.uses[r].back() >= ready) continue;
      stamp_[r] = round_;
      search_.push_back(r);
    }
  }
  return problem_.values[v].hint == Hint::recompute ? seconds * kHinted : seconds;
}

IdVector<ValueId, double> CodecSelector::seconds_again() const {
  IdVector<ValueId, double> seconds(problem_.values.size(), 0);
  for (const Interval& interval : intervals_) {
    auto& most = seconds[interval.value];
    most = std::max(most, interval.recompute_seconds);
  }
  return seconds;
}

// One selection: what is left of the memory as choices are made.
class Selection {
 public:
  using Interval = CodecSelector::Interval;

  Selection(const CodecSelector& selector, std::int64_t limit, const CodecStyle& style,
            std::span<const std::int64_t> elsewhere)
      : of_(selector),
        problem_(selector.problem_),
        limit_(limit),
        style_(style),
        elsewhere_(elsewhere) {
    profile_ = of_.profile_;
    taken_.assign(of_.intervals_.size(), 0);
  }

  std::vector<Choice> run() {
    compress_hinted();
    for (std::size_t t = 0; t < elsewhere_.size(); ++t) profile_[t] -= elsewhere_[t];
    compress();
    std::sort(choices_.begin(), choices_.end(),
              [](const Choice& a, const Choice& b) { return a.value < b.value; });
    return std::move(choices_);
  }

 private:
  const Value& value(ValueId v) const { return problem_.values[v]; }
  std::span<const Form> forms(ValueId v) const {
    return of_.forms_.subspan(at(of_.first_form_[v]),
                              at(of_.first_form_[v + 1] - of_.first_form_[v]));
  }
  bool allowed(const Form& form) const {
    return form.kind == RemedyKind::compress && (style_.lossy || form.codec.lossless());
  }

  // The least that evicting an interval costs, and by what: null for recomputing.
  //
  // Ways are compared per byte that they free, since that is what the time steps lack: compressing
  // 100 bytes to 25 for 3 s frees 75 at 0.04 s each, recomputing all 100 for 5 s at 0.05 s.
  struct Way {
    double seconds = kInfinite;
    std::int64_t bytes = 0;  // freed
    const Form* form = nullptr;
    OpId last;  // until this op has run
  };
  Choice choose(const Form& form, OpId ready) const {
    Choice choice = choose_form(problem_, form, ready);
    if (!style_.fuse_coding) {
      choice.fused_readers = {};
      choice.fused_encode = false;
    }
    return choice;
  }

  // Whether a read between the interval's end and the value's next interval needs the value itself.
  bool is_decoded_after(const Interval& interval, const Form& form) const {
    const Interval* const next = &interval + 1;
    const bool more =
        next < of_.intervals_.data() + of_.intervals_.size() && next->value == interval.value;
    const OpId end = more ? next->ready : kNever;
    const auto uses = problem_.uses[interval.value];
    return std::any_of(uses.begin(), uses.end(), [&](OpId use) {
      return use > interval.ready && use < end &&
             !reads_fused(problem_.ops[use], form.fused_readers);
    });
  }

  Way cheapest(const Interval& interval) const {
    Way best;
    const Value& v = value(interval.value);
    if (style_.recompute && v.hint != Hint::keep) {
      best.seconds = interval.recompute_seconds;
      if (v.hint != Hint::recompute) best.seconds *= style_.recompute_factor;
      best.bytes = v.bytes;
      best.last = interval.last;
    }
    for (const Form& form : forms(interval.value)) {
      if (!allowed(form) || interval.ready < form.first_return) continue;
      const bool fused =
          style_.fuse_coding && reads_fused(problem_.ops[interval.ready], form.fused_readers);
      const bool decodes = !fused || is_decoded_after(interval, form);
      const double out = style_.fuse_coding && form.fused_encode ? 0 : form.encode_seconds;
      Way way{out + (decodes ? form.decode_seconds : 0), v.bytes - form.bytes, &form,
              fused ? interval.ready : interval.last};
      if (v.hint == Hint::compress) way.seconds *= kHinted;
      if (way.bytes <= 0) continue;
      // Compared by byte.
      if (way.seconds * static_cast<double>(std::max<std::int64_t>(1, best.bytes)) <
              best.seconds * static_cast<double>(way.bytes) ||
          best.seconds == kInfinite) {
        best = way;
      }
    }
    return best;
  }

  // Divides the memory between all intervals that may be evicted.
  void divide(std::vector<Way>& ways, std::vector<std::int32_t>& stretch_of,
              std::vector<std::int64_t>& kept) {
    ways.assign(of_.intervals_.size(), {});
    stretch_of.assign(of_.intervals_.size(), -1);
    std::vector<std::int64_t> available(profile_.size(), 0), covered(profile_.size() + 1, 0);
    std::vector<Stretch> stretches;
    for (std::size_t g = 0; g < of_.intervals_.size(); ++g) {
      const Interval& interval = of_.intervals_[g];
      if (taken_[g]) continue;
      ways[g] = cheapest(interval);
      if (ways[g].seconds == kInfinite) continue;
      stretch_of[g] = static_cast<std::int32_t>(stretches.size());
      stretches.push_back(
          {interval.first.value(), ways[g].last.value(), ways[g].bytes, ways[g].seconds});
      covered[at(interval.first)] += ways[g].bytes;
      covered[at(ways[g].last + 1)] -= ways[g].bytes;
    }
    std::int64_t sum = 0;
    for (std::size_t t = 0; t < available.size(); ++t) {
      sum += covered[t];
      available[t] = std::max<std::int64_t>(0, limit_ - (profile_[t] - sum));
    }
    const auto count = static_cast<std::int64_t>(available.size() + stretches.size());
    LinePrices line(available, std::move(stretches));
    line.solve(200'000 + 200 * count);
    kept.assign(of_.intervals_.size(), kUnlimited);
    for (std::size_t g = 0; g < kept.size(); ++g) {
      if (stretch_of[g] >= 0) kept[g] = line.kept(stretch_of[g]);
    }
  }

  bool is_over(const Interval& interval) const {
    const auto first = profile_.begin() + interval.first.value();
    return std::any_of(first, profile_.begin() + interval.last.value() + 1,
                       [&](std::int64_t bytes) { return bytes > limit_; });
  }

  void compress_hinted() {
    for (const ValueId v : problem_.values.ids()) {
      if (value(v).hint != Hint::compress) continue;
      const auto all = forms(v);
      const auto form =
          std::find_if(all.begin(), all.end(), [&](const Form& f) { return allowed(f); });
      if (form == all.end()) continue;
      Choice choice;
      const std::int64_t freed = value(v).bytes - form->bytes;
      for (std::int32_t g = of_.first_interval_[v]; g < of_.first_interval_[v + 1]; ++g) {
        const Interval& interval = of_.intervals_[at(g)];
        if (interval.ready < form->first_return || !is_over(interval)) continue;
        if (choice.returns.empty()) {
          choice = choose(*form, interval.ready);
        } else {
          choice.returns.push_back({interval.ready, interval.ready});
        }
        taken_[at(g)] = 1;
        for (OpId t = interval.first; t <= interval.last; ++t) profile_[at(t)] -= freed;
      }
      if (!choice.returns.empty()) choices_.push_back(std::move(choice));
    }
  }

  void compress() {
    IdVector<ValueId, char> has_choice(problem_.values.size(), 0);
    for (const Choice& choice : choices_) has_choice[choice.value] = 1;
    std::vector<Way> ways;
    std::vector<std::int32_t> stretch_of;
    std::vector<std::int64_t> kept;
    divide(ways, stretch_of, kept);
    for (const ValueId v : problem_.values.ids()) {
      if (has_choice[v]) continue;
      // The form that the first of the evicted intervals wants, for all of them where it may be.
      const Form* form = nullptr;
      Choice choice;
      for (std::int32_t g = of_.first_interval_[v]; g < of_.first_interval_[v + 1]; ++g) {
        const Way& way = ways[at(g)];
        if (stretch_of[at(g)] < 0 || way.form == nullptr || kept[at(g)] >= way.bytes) continue;
        const Interval& interval = of_.intervals_[at(g)];
        if (form == nullptr) {
          form = way.form;
          choice = choose(*form, interval.ready);
        } else if (interval.ready >= form->first_return) {
          choice.returns.push_back({interval.ready, interval.ready});
        }
      }
      if (form != nullptr) choices_.push_back(std::move(choice));
    }
  }

  const CodecSelector& of_;
  const Problem& problem_;
  const std::int64_t limit_;
  const CodecStyle style_;
  const std::span<const std::int64_t> elsewhere_;
  std::vector<std::int64_t> profile_;  // what is left in the arena
  std::vector<char> taken_;            // per interval
  std::vector<Choice> choices_;
};

std::vector<Choice> CodecSelector::select(std::int64_t arena_limit, const CodecStyle& style,
                                          std::span<const std::int64_t> elsewhere) const {
  return Selection(*this, arena_limit, style, elsewhere).run();
}

}  // namespace plimsoll::planner
