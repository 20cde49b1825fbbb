// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remedies/remedies_select.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/base/index.h"
#include "runtime/planner/flow/line_flow.h"
#include "runtime/planner/problem/timeline.h"
#include "runtime/planner/remedies/engine_slots.h"
#include "runtime/planner/remedies/remedies_find.h"

// Choosing what to swap and what to compress.
//
// Three ways compete for every interval of a value between two touches: recompute it (the seconds
// of its recompute set), compress it (encode and decode seconds, its encoded bytes stay), swap it
// (nothing while the transfers hide behind compute, but the engines do one transfer at a time).
// What they have in common is bytes over time steps, so they are compared by a price.
//
// 1. Prices. The cheapest way of each interval but keeping becomes a stretch of line_flow.h: its
// bytes, and the seconds that keeping saves. The flow divides the memory as if parts of values
// could be kept, and says what a byte is worth at every time step. Where memory suffices the price
// is zero, at the peak it is the marginal remedy's.
//
// 2. Swaps, by worth. A value's worth is what its bytes earn at these prices over its intervals
// (but no more than recomputing it would take), its score that worth per second of the engines it
// would use. In falling order each value gets the first free stretch of its engine out and the last
// free stretch in that ends before its read, if what is free in between still earns something.
// Example: A, 100 MB, worth 8 ms, transfers of 10 ms each way: 0.4; B, 20 MB, worth 3 ms, 2 ms each
// way: 0.75. B goes first; if the engine is busy until A's next read, A stays for the other ways.
//
// 3. The rest is divided again, now between recomputing and compressing. An interval of which the
// flow keeps less than all of it, and whose cheapest way is a form, gets that form; an interval
// whose cheapest way is to recompute needs no choice: whoever schedules the problem does that by
// itself.
//
// Hints come first: what its author wants compressed, swapped or recomputed counts as a millionth
// of its cost (kHinted).

namespace plimsoll::planner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Ancestors that the price of recomputing one value looks at.
constexpr std::size_t kMostAncestors = 24;
// What is asked for goes first.
constexpr double kHinted = 1e-6;

}  // namespace

RemedySelector::RemedySelector(const Problem& problem, std::span<const Form> forms,
                               const PlanOptions& options)
    : problem_(problem), forms_(forms), options_(options) {
  Schedule once = each_once(problem);
  evaluate(problem, once, &profile_);
  own_.resize(once.size());
  for (const OpId op : problem.ops.ids()) {
    own_[op] = problem.ops[op].workspace;
    for (const ValueId v : problem.reads[op]) {
      if (problem.in_arena(v)) own_[op] += problem.values[v].bytes;
    }
    for (const ValueId v : problem.outputs[op]) {
      if (v >= 0 && problem.in_arena(v)) own_[op] += problem.values[v].bytes;
    }
  }
  start_.resize(once.size() + 1, 0);
  for (const OpId op : problem.ops.ids()) {
    start_[op + 1] = start_[op] + problem.ops[op].seconds;
  }
  stamp_.assign(problem.values.size(), 0);
  first_form_.assign(problem.values.size() + 1, 0);
  for (const Form& form : forms) ++first_form_[form.value + 1];
  for (const ValueId v : problem.values.ids()) first_form_[v + 1] += first_form_[v];
  list_intervals();
}

void RemedySelector::list_intervals() {
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
double RemedySelector::recompute_set_seconds(ValueId v, OpId ready) {
  if (problem_.deadline[v] < ready) return kInfinity;
  ++round_;
  search_.assign(1, v);
  stamp_[v] = round_;
  double seconds = 0;
  for (std::size_t i = 0; i < search_.size() && i < kMostAncestors; ++i) {
    const OpId producer = problem_.values[search_[i]].producer;
    if (!problem_.ops[producer].recomputable) return kInfinity;
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

IdVector<ValueId, double> RemedySelector::seconds_again() const {
  IdVector<ValueId, double> seconds(problem_.values.size(), 0);
  for (const Interval& interval : intervals_) {
    auto& most = seconds[interval.value];
    most = std::max(most, interval.recompute_seconds);
  }
  return seconds;
}

// One selection: what is left of the memory, the engines' time and the tiers as choices are made.
class Selection {
 public:
  using Interval = RemedySelector::Interval;

  Selection(const RemedySelector& selector, std::int64_t limit, const SelectionStyle& style)
      : of_(selector), problem_(selector.problem_), limit_(limit), style_(style) {
    profile_ = of_.profile_;
    taken_.assign(of_.intervals_.size(), 0);
    waiting_.assign(profile_.size(), 0);
  }

  std::vector<Choice> run() {
    find_prices();
    if (style_.compress) compress_hinted();
    if (style_.swaps()) swap();
    if (style_.compress) compress();
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
    if (form.kind == RemedyKind::compress) {
      return style_.compress && (style_.lossy || form.codec.lossless());
    }
    return style_.tiers[space_of(form.kind)];
  }
  static bool is_hinted(const Value& value, RemedyKind kind) {
    return value.hint == (kind == RemedyKind::compress ? Hint::compress : Hint::swap);
  }

  // The least that evicting an interval costs, and by what: null for recomputing.
  //
  // Ways are compared per byte that they free, since that is what the time steps lack: compressing
  // 100 bytes to 25 for 3 s frees 75 at 0.04 s each, recomputing all 100 for 5 s at 0.05 s.
  struct Way {
    double seconds = kInfinity;
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

  Way cheapest(const Interval& interval, bool swaps) const {
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
      if (form.kind != RemedyKind::compress && !swaps) continue;
      const bool fused =
          style_.fuse_coding && reads_fused(problem_.ops[interval.ready], form.fused_readers);
      const bool decodes = !fused || is_decoded_after(interval, form);
      const double out = style_.fuse_coding && form.fused_encode ? 0 : form.out_seconds;
      Way way{out + (decodes ? form.in_seconds : 0), v.bytes, &form,
              fused ? interval.ready : interval.last};
      if (form.kind == RemedyKind::compress) way.bytes -= form.bytes;
      if (is_hinted(v, form.kind)) way.seconds *= kHinted;
      if (way.bytes <= 0) continue;
      // Compared by byte.
      if (way.seconds * static_cast<double>(std::max<std::int64_t>(1, best.bytes)) <
              best.seconds * static_cast<double>(way.bytes) ||
          best.seconds == kInfinity) {
        best = way;
      }
    }
    return best;
  }

  // Divides the memory between all intervals that may be evicted, and prices the time steps.
  void divide(bool swaps, std::vector<Way>& ways, std::vector<std::int32_t>& stretch_of,
              std::vector<std::int64_t>& kept) {
    ways.assign(of_.intervals_.size(), {});
    stretch_of.assign(of_.intervals_.size(), -1);
    std::vector<std::int64_t> available(profile_.size(), 0), covered(profile_.size() + 1, 0);
    std::vector<Stretch> stretches;
    for (std::size_t g = 0; g < of_.intervals_.size(); ++g) {
      const Interval& interval = of_.intervals_[g];
      if (taken_[g]) continue;
      ways[g] = cheapest(interval, swaps);
      if (ways[g].seconds == kInfinity) continue;
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
    prices_ = line.prices();
    kept.assign(of_.intervals_.size(), kUnlimited);
    for (std::size_t g = 0; g < kept.size(); ++g) {
      if (stretch_of[g] >= 0) kept[g] = line.kept(stretch_of[g]);
    }
  }

  void find_prices() {
    std::vector<Way> ways;
    std::vector<std::int32_t> stretch_of;
    std::vector<std::int64_t> kept;
    divide(true, ways, stretch_of, kept);
    // Where nothing may be bought the price says nothing: there every byte over the limit counts.
    double most = 0;
    for (const double price : prices_) most = std::max(most, price);
    if (most == 0) most = 1;
    for (std::size_t t = 0; t < prices_.size(); ++t) {
      if (profile_[t] > limit_) prices_[t] = std::max(prices_[t], 1e-3 * most);
    }
  }

  // Worth of `bytes` from op `first` to op `last`, where they are still needed.
  double worth(OpId first, OpId last, std::int64_t bytes) const {
    double sum = 0;
    for (OpId t = first; t <= last; ++t) {
      const std::int64_t over = profile_[at(t)] - limit_;
      if (over > 0) sum += prices_[at(t)] * static_cast<double>(std::min(over, bytes));
    }
    return sum;
  }

  // What not having an interval's bytes at all saves, when keeping them costs `kept`: that, or what
  // recomputing them would.
  double saving(const Interval& interval, double kept) const {
    return style_.recompute ? std::min(kept, interval.recompute_seconds) : kept;
  }

  void compress_hinted() {
    for (const ValueId v : problem_.values.ids()) {
      if (value(v).hint != Hint::compress) continue;
      const auto all = forms(v);
      const auto form = std::find_if(all.begin(), all.end(), [&](const Form& f) {
        return f.kind == RemedyKind::compress && allowed(f);
      });
      if (form == all.end()) continue;
      Choice choice;
      const std::int64_t freed = value(v).bytes - form->bytes;
      for (std::int32_t g = of_.first_interval_[v]; g < of_.first_interval_[v + 1]; ++g) {
        const Interval& interval = of_.intervals_[at(g)];
        if (interval.ready < form->first_return || worth(interval.first, interval.last, freed) <= 0)
          continue;
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

  void swap() {
    IdVector<ValueId, char> has_choice(problem_.values.size(), 0);
    for (const Choice& choice : choices_) has_choice[choice.value] = 1;
    struct Unit {
      double score;
      ValueId value;
    };
    std::vector<Unit> units;
    for (const ValueId v : problem_.values.ids()) {
      if (has_choice[v] || (style_.recompute && value(v).hint == Hint::recompute)) continue;
      const auto all = forms(v);
      const auto form = std::find_if(all.begin(), all.end(), [&](const Form& f) {
        return f.kind != RemedyKind::compress && allowed(f);
      });
      if (form == all.end()) continue;
      double sum = 0;
      int intervals = 0;
      for (std::int32_t g = of_.first_interval_[v]; g < of_.first_interval_[v + 1]; ++g) {
        const Interval& interval = of_.intervals_[at(g)];
        const double w = saving(interval, worth(interval.first, interval.last, value(v).bytes));
        if (w <= 0) continue;
        sum += w;
        ++intervals;
      }
      if (intervals == 0) continue;
      double score = sum / (form->out_seconds + intervals * form->in_seconds);
      if (value(v).hint == Hint::swap) score /= kHinted;
      units.push_back({score, v});
    }
    std::stable_sort(units.begin(), units.end(),
                     [](const Unit& a, const Unit& b) { return a.score > b.score; });
    for (const MemorySpace tier : kTiers) used_[tier].assign(profile_.size() + 1, 0);
    for (const Unit& unit : units) swap_value(unit.value);
  }

  double time(OpId op) const { return of_.start_[op] * style_.stretch; }
  // The last op that starts by then.
  OpId op_by(double seconds) const {
    const auto it = std::upper_bound(of_.start_.begin(), of_.start_.end() - 1,
                                     seconds / style_.stretch + 1e-12);
    return std::max(OpId(0), OpId(it - of_.start_.begin()) - 1);
  }
  // The first op that starts then or later; the end if none does.
  OpId op_from(double seconds) const {
    const auto it = std::lower_bound(of_.start_.begin(), of_.start_.end() - 1,
                                     seconds / style_.stretch - 1e-12);
    return OpId(it - of_.start_.begin());
  }

  void swap_value(ValueId v) {
    for (const Form& form : forms(v)) {
      if (form.kind == RemedyKind::compress || !allowed(form)) continue;
      if (swap_by(form)) return;
    }
  }

  bool fits_tier(const Form& form, OpId from, OpId to) const {
    const MemorySpace tier = space_of(form.kind);
    const auto& used = used_[tier];
    const std::int64_t size = of_.options_[tier].bytes;
    for (OpId t = from; t <= to; ++t) {
      if (used[t] + form.bytes > size) return false;
    }
    return true;
  }

  // Whether a value may stay in the arena for its transfers from op `first` to op `last`.
  //
  // A value that waits for its engine, or is on its way, takes bytes that recomputing it would not.
  // With recomputation at hand, no more than `waiting_share` of what an op leaves free may go to
  // such values: the rest is where recomputation happens.
  bool may_wait(OpId first, OpId last, std::int64_t bytes) const {
    if (!style_.recompute) return true;
    for (OpId t = first; t <= last; ++t) {
      const auto available = static_cast<double>(limit_ - of_.own_[t]) * style_.waiting_share;
      if (static_cast<double>(waiting_[t] + bytes) > available) return false;
    }
    return true;
  }

  // All intervals of a value share one copy out, and each has a copy in. The copy out takes the
  // first free stretch of its engine after the value was made; until it is over, the bytes stay
  // (`left`). A copy in takes the last free stretch that is over before the read, so that the bytes
  // are free for as long as can be; they are booked from its start on. What is gained is the part
  // of the interval between the two.
  bool swap_by(const Form& form) {
    const MemorySpace tier = space_of(form.kind);
    EngineSlots& out = slots_[at(engine_of(tier, true))];
    EngineSlots& in = slots_[at(engine_of(tier, false))];
    const Value& v = value(form.value);
    Choice choice = choose_form(problem_, form, problem_.uses[form.value].back());
    choice.returns.clear();
    struct Freed {
      std::int32_t interval;
      OpId first, last;
      double in_start;
    };
    std::vector<Freed> freed;
    const double out_start = out.first_fit(time(v.producer + 1), form.out_seconds);
    choice.leave = std::max(v.producer + 1, op_by(out_start));
    OpId left = op_from(out_start + form.out_seconds);
    for (std::int32_t g = of_.first_interval_[form.value]; g < of_.first_interval_[form.value + 1];
         ++g) {
      const Interval& interval = of_.intervals_[at(g)];
      if (taken_[at(g)]) continue;
      const OpId first = freed.empty() ? std::max(interval.first, left) : interval.first;
      if (first > interval.last) continue;
      const double in_start = in.last_fit(time(first), time(interval.ready), form.in_seconds);
      if (in_start == -kInfinity) continue;
      const OpId start = std::max(first, op_by(in_start));
      if (start <= first) continue;
      // While its transfers wait and last the value takes memory, which recomputing it would not.
      const double all = worth(interval.first, interval.last, v.bytes);
      const double some = worth(first, start - 1, v.bytes);
      if (some <= 0 || saving(interval, all) <= all - some) continue;
      if (!may_wait(interval.first, first - 1, v.bytes) || !may_wait(start, interval.last, v.bytes))
        continue;
      freed.push_back({g, first, start - 1, in_start});
      if (freed.size() == 1) choice.left = first;
      choice.returns.push_back({start, interval.ready});
      in.take(in_start, form.in_seconds);
    }
    const bool fits = !freed.empty() && fits_tier(form, choice.leave, choice.returns.back().ready);
    if (!fits) {
      for (const Freed& f : freed) in.give_back(f.in_start);
      return false;
    }
    out.take(out_start, form.out_seconds);
    auto& used = used_[tier];
    for (OpId t = choice.leave; t <= choice.returns.back().ready; ++t) used[t] += form.bytes;
    for (const Freed& f : freed) {
      taken_[at(f.interval)] = 1;
      for (OpId t = f.first; t <= f.last; ++t) profile_[at(t)] -= v.bytes;
      const Interval& interval = of_.intervals_[at(f.interval)];
      for (OpId t = interval.first; t < f.first; ++t) waiting_[t] += v.bytes;
      for (OpId t = f.last + 1; t <= interval.last; ++t) waiting_[t] += v.bytes;
    }
    choices_.push_back(std::move(choice));
    return true;
  }

  void compress() {
    IdVector<ValueId, char> has_choice(problem_.values.size(), 0);
    for (const Choice& choice : choices_) has_choice[choice.value] = 1;
    std::vector<Way> ways;
    std::vector<std::int32_t> stretch_of;
    std::vector<std::int64_t> kept;
    divide(false, ways, stretch_of, kept);
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

  const RemedySelector& of_;
  const Problem& problem_;
  const std::int64_t limit_;
  const SelectionStyle style_;
  std::vector<std::int64_t> profile_;     // what is left in the arena
  IdVector<OpId, std::int64_t> waiting_;  // bytes of values in transfer
  std::vector<double> prices_;
  std::vector<char> taken_;  // per interval
  std::array<EngineSlots, kEngines> slots_;
  PerTier<IdVector<OpId, std::int64_t>> used_;
  std::vector<Choice> choices_;
};

std::vector<Choice> RemedySelector::select(std::int64_t arena_limit,
                                           const SelectionStyle& style) const {
  return Selection(*this, arena_limit, style).run();
}

}  // namespace plimsoll::planner
