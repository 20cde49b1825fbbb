// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remat/local_search.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>

#include "runtime/base/index.h"

// Simulated annealing over schedules.
//
// A change takes one recomputation out, sometimes a few near each other (remove_cascade: with those
// that were for it alone), or moves a first execution. What that keeps longer may be too much; then
// values that lie idle where the profile is highest are evicted, one after another, cheapest first,
// each recomputed before its next read (drop_at), until the schedule fits again (repair).
// Recomputations that the change has made unnecessary go as well (try_removals).
//
// Acceptance. A change may make the schedule slower by at most -T log(1 - u), u uniform in [0, 1):
// the probability that this is at least d is exp(-d / T), which is Metropolis' rule, with the
// random number drawn first. Drawn first, it is a limit in seconds that the repair may not pass, so
// that hopeless changes are left early. T falls geometrically from a multiple of the mean
// recomputation to a thousandth of it, in four cycles of different heights, each from the best
// schedule so far.
//
// Example of a step: v (20 MB, recomputed at slot 90 in 3 ms) is kept instead; the peak, at slot
// 60, is now 20 MB too high; of eight values that are there at 60 without being touched, w (24 MB,
// 2 ms) is the cheapest per byte freed over the stretch that is too full. Making w again before its
// next read at slot 75 costs 2 ms: the schedule is 1 ms faster.
//
// `tabu_round_` keeps what a change has just decided to keep from being evicted by its own repair.

namespace plimsoll::planner {
namespace {

// Temperatures, in mean times of a recomputation.
constexpr int kCycles = 4;
constexpr double kFirstTemperatures[] = {0.1, 1, 0.03, 0.4};
constexpr double kLastTemperature = 0.001;
// Values looked at before one is evicted, and by how much their prices are changed at random.
constexpr std::int32_t kSample = 8;
constexpr double kNoise = 0.3;
// The same where a schedule is brought within the limit, and how often that may get stuck.
constexpr std::int32_t kFitSample = 32;
constexpr int kMostFailures = 8;
// Recomputations that are tried to be done without after each change.
constexpr int kTries = 8;
constexpr double kOneMoreShare = 0.6;  // of changes take out one recomputation more
constexpr int kMostTogether = 4;
constexpr double kOrderShare = 0.4;  // of changes move a first execution, if those may

// Units of the clock per unit of work_.
constexpr std::int64_t kWorkUnit = 40;
constexpr std::int64_t kFitWorkPerOp = 100'000;
constexpr std::size_t kMostRecomputeSet = 256;

}  // namespace

LocalSearch::LocalSearch(const Problem& problem, std::int64_t min_bytes, bool may_reorder,
                         std::uint64_t seed)
    : problem_(problem), may_reorder_(may_reorder), editor_(problem), random_(seed) {
  const std::size_t values = problem.values.size();
  may_drop_.assign(values, 0);
  for (const ValueId v : problem.values.ids()) {
    const Value& value = problem.values[v];
    may_drop_[v] = editor_.tracked(v) && value.bytes > 0 && value.bytes >= min_bytes &&
                   !value.live_out && !value.keep && problem.ops[value.producer].recomputable;
  }
  value_round_.assign(values, 0);
  tabu_round_.assign(values, 0);
  status_.assign(values, Status::unknown);
  op_round_.assign(problem.ops.size(), 0);
  list_spans();
}

// A value may be there from its making to its last use, or to the last use of what is made from it,
// when that is recomputed.
//
// Per block of ops, the values that may live there: drop_at() draws from the block of the peak
// instead of from all values.
void LocalSearch::list_spans() {
  const int ops = problem_.op_count();
  block_ = std::max(8, ops / 256);
  spans_.resize(at(ops / block_ + 1));
  const auto last_use = [&](ValueId v) {
    const auto uses = problem_.uses[v];
    return uses.empty() ? OpId() : uses.back();
  };
  for (const ValueId v : may_drop_.ids()) {
    if (!may_drop_[v]) continue;
    droppable_.push_back(v);
    OpId last = last_use(v);
    for (const OpId user : problem_.uses[v]) {
      for (const ValueId o : problem_.outputs[user]) {
        if (o >= 0) last = std::max(last, last_use(o));
      }
    }
    for (std::int32_t b = block_of(problem_.values[v].producer); b <= block_of(last); ++b) {
      spans_[at(b)].push_back(v);
    }
  }
}

// Makes room where there was too little; the changes since the last forget() are lost.
void LocalSearch::make_room() {
  const std::int32_t tight = tight_slot_;
  editor_.undo(0);
  // The slot may have been put in use since.
  const std::size_t position = editor_.executions_before(tight);
  const Schedule schedule = editor_.schedule();
  editor_.load(schedule, position, wanted_free_slots_);
  tight_slot_ = -1;
  work_ += static_cast<std::int64_t>(schedule.size());
}

LocalSearch::Status LocalSearch::status(ValueId v) const {
  return value_round_[v] == round_ ? status_[v] : Status::unknown;
}

void LocalSearch::set_status(ValueId v, Status status) {
  value_round_[v] = round_;
  status_[v] = status;
}

void LocalSearch::begin_recompute_set(double most_seconds) {
  ++round_;
  recompute_set_.clear();
  set_seconds_ = 0;
  most_set_seconds_ = most_seconds;
}

// Sees to it that `v` can be read right before `slot` once recompute_set_ is placed there.
//
// A recompute set is what must run for one value to be back. A value that it reads may be there, or
// be kept a little longer where the profile has the bytes for it, or must be recomputed, which adds
// its producer to the recompute set and asks the same of the producer's operands. Values are asked
// once per recompute set (`status`). A view is right only for the copy that it was made of:
// recomputing the value means recomputing its later views, too.
bool LocalSearch::need(ValueId v, std::int32_t slot) {
  if (!editor_.tracked(v) || status(v) != Status::unknown) return true;
  const Value& value = problem_.values[v];
  const ValueId of = problem_.view_of.empty() ? ValueId() : problem_.view_of[v];
  if (of >= 0) {
    if (!need(of, slot)) return false;
    if (status(v) != Status::unknown) return true;
    if (status(of) == Status::recomputed || !editor_.view_is_current(v, slot)) {
      return recompute(value.producer, slot);
    }
    set_status(v, Status::there);
    return true;
  }
  ++work_;
  const ScheduleEditor::Copy copy = editor_.copy_before(v, slot);
  if (copy.last >= slot || copy.last == slot - 1 || !problem_.ops[value.producer].recomputable ||
      editor_.profile().max(copy.last + 1, slot - 1) + value.bytes <= limit_) {
    set_status(v, Status::there);
    return true;
  }
  return recompute(value.producer, slot);
}

bool LocalSearch::recompute(OpId op, std::int32_t slot) {
  if (op_round_[op] == round_) return true;
  const Op& what = problem_.ops[op];
  if (!what.recomputable || recompute_set_.size() >= kMostRecomputeSet) return false;
  set_seconds_ += what.seconds;
  if (set_seconds_ > most_set_seconds_) return false;
  op_round_[op] = round_;
  recompute_set_.push_back(op);
  for (const ValueId v : problem_.outputs[op]) {
    if (v < 0 || !editor_.tracked(v)) continue;
    const OpId deadline = problem_.deadline[v];
    if (deadline != kNever && slot > editor_.first_slot(deadline)) return false;
    set_status(v, Status::recomputed);
    // Views that are read later would be of the copy before.
    const auto views = editor_.views(v);
    if (views.empty()) continue;
    const std::int32_t next_made = editor_.copy_before(v, slot).next_made;
    for (const ValueId view : views) {
      const std::int32_t read = editor_.next_read(view, slot);
      if (read >= next_made) continue;
      if (editor_.copy_before(view, read).made > slot) continue;
      if (!recompute(problem_.values[view].producer, slot)) return false;
    }
  }
  for (const ValueId v : problem_.reads[op]) {
    if (!need(v, slot)) return false;
  }
  return true;
}

bool LocalSearch::place_recompute_set(std::int32_t slot) {
  const auto count = static_cast<std::int32_t>(recompute_set_.size());
  const std::int32_t slots = editor_.free_slots_before(slot);
  if (slots < count) {
    tight_slot_ = slot;
    wanted_free_slots_ = 4 * count + 16;
    return false;
  }
  std::sort(recompute_set_.begin(), recompute_set_.end());
  for (std::int32_t i = 0; i < count; ++i) {
    editor_.insert(slot - slots + (2 * i + 1) * slots / (2 * count), recompute_set_[at(i)]);
  }
  work_ += count * 4;
  // Copies before that nobody reads any more need not be made.
  for (std::int32_t s = slot - slots; s < slot; ++s) {
    const OpId op = editor_.op_at(s);
    if (op < 0) continue;
    for (const ValueId v : problem_.outputs[op]) {
      if (v < 0 || !editor_.tracked(v)) continue;
      const std::int32_t made = editor_.copy_before(v, s).made;
      if (made >= 0 && editor_.is_again(made) && editor_.unread(made)) remove_cascade(made);
    }
  }
  return true;
}

void LocalSearch::remove_cascade(std::int32_t slot) {
  const std::size_t mark = editor_.mark();
  editor_.remove_cascade(slot, over_from_, over_to_);
  work_ += 4 * static_cast<std::int64_t>(editor_.mark() - mark);
}

// What evicting `v` around `slot` costs per byte that this frees where there are too many.
//
// The score is seconds of the recompute set, over the bytes freed where they are too many: at most
// `over`, and in the share of the stretch over_from_ .. over_to_ that the value would be gone for.
// A random factor of up to 1 + kNoise lets equal tries end differently.
bool LocalSearch::price(ValueId v, std::int32_t slot, std::int64_t over, Drop& drop) {
  ++work_;
  const ScheduleEditor::Copy copy = editor_.copy_before(v, slot);
  if (copy.made < 0 || copy.last <= slot) return false;
  const OpId kept = problem_.values[v].kept_until;
  if (kept.value() > 0 && slot <= editor_.end_of(kept)) return false;
  const std::int32_t before = editor_.next_read(v, slot);
  if (before == slot) return false;
  const std::int32_t touched = editor_.last_touch_before(v, slot);
  begin_recompute_set(most_set_seconds_);
  if (!recompute(problem_.values[v].producer, before)) return false;
  // A recomputation that nothing reads in between is only moved.
  double cost = set_seconds_;
  if (touched == copy.made && editor_.is_again(copy.made))
    cost -= seconds_of(editor_.op_at(touched));
  cost = std::max(cost, 1e-12);
  const double from = std::max(over_from_, touched), to = std::min(over_to_, before);
  const double share = std::max(0.0, to - from) / std::max(1, over_to_ - over_from_) + 0.02;
  const auto freed = static_cast<double>(std::min(problem_.values[v].bytes, over));
  drop.value = v;
  drop.before = before;
  drop.score = cost / (freed * share) * (1 + kNoise * random_.unit());
  return true;
}

// Gives up one of the values that are there at `slot` without being touched.
bool LocalSearch::drop_at(std::int32_t slot, std::int32_t sample, double most_seconds) {
  const std::int64_t over = editor_.profile().max() - limit_;
  const auto& values = spans_[at(block_of(std::max(OpId(0), editor_.stage(slot))))];
  Drop best;
  int found = 0;
  const auto look_at = [&](ValueId v) {
    if (tabu_round_[v] == tabu_) return;
    most_set_seconds_ = most_seconds - editor_.seconds();
    Drop drop;
    if (!price(v, slot, over, drop)) return;
    ++found;
    if (best.value < 0 || drop.score < best.score) best = drop;
  };
  // Random places first, then all in turn when nothing was found there.
  if (const auto count = static_cast<std::int32_t>(values.size()); count > 0) {
    for (std::int32_t k = 0; k < 16 * sample && found < sample; ++k) {
      look_at(values[at(random_.below(count))]);
    }
    for (std::int32_t k = 0; k < count && found == 0; ++k) look_at(values[at(k)]);
  }
  for (const ValueId v : droppable_) {
    if (found > 0) break;
    look_at(v);
  }
  if (best.value < 0) return false;
  begin_recompute_set(kInfinite);
  if (!recompute(problem_.values[best.value].producer, best.before)) return false;
  return place_recompute_set(best.before);
}

bool LocalSearch::repair(double most_seconds) {
  for (int step = 0; !fits(); ++step) {
    if (step == 200 || editor_.seconds() > most_seconds) return false;
    if (!drop_at(editor_.profile().argmax(), kSample, most_seconds)) return false;
  }
  return editor_.seconds() <= most_seconds;
}

// Takes out recomputations that are not needed.
void LocalSearch::try_removals(int tries) {
  for (int i = 0; i < tries && !editor_.again().empty(); ++i) {
    const auto count = static_cast<std::int32_t>(editor_.again().size());
    const std::int32_t slot = editor_.again()[at(random_.below(count))];
    bool may_fit = editor_.removable(slot);
    for (const ValueId v : problem_.outputs[editor_.op_at(slot)]) {
      if (!may_fit || v < 0 || !editor_.tracked(v)) continue;
      ++work_;
      const ScheduleEditor::Copy before = editor_.copy_before(v, slot);
      if (editor_.copy_before(v, slot + 1).last == slot || before.last + 1 >= slot) continue;
      may_fit =
          editor_.profile().max(before.last + 1, slot - 1) + problem_.values[v].bytes <= limit_;
    }
    if (!may_fit) continue;
    const std::size_t mark = editor_.mark();
    remove_cascade(slot);
    if (!fits()) editor_.undo(mark);
  }
}

// Moves the first execution of some op to somewhere between what it reads and what reads it.
bool LocalSearch::try_order_move() {
  const OpId op(random_.below(problem_.op_count()));
  const std::int32_t slot = editor_.first_slot(op);
  const OpId last = problem_.ops.end_id() - 1;
  if (op == last) return false;
  std::int32_t low = -1, high = editor_.first_slot(last);
  for (const ValueId v : problem_.reads[op]) {
    const OpId producer = problem_.values[v].producer;
    if (producer >= 0) low = std::max(low, editor_.first_slot(producer));
  }
  for (const ValueId v : problem_.outputs[op]) {
    if (v < 0) continue;
    if (editor_.tracked(v)) {
      high =
          std::min({high, editor_.next_read(v, slot), editor_.copy_before(v, slot + 1).next_made});
      const ValueId of = problem_.view_of.empty() ? ValueId() : problem_.view_of[v];
      if (of >= 0) low = std::max(low, editor_.copy_before(of, slot).made);
    } else {
      for (const OpId user : problem_.uses[v]) high = std::min(high, editor_.first_slot(user));
    }
  }
  if (high - low < 3) return false;
  std::int32_t to;
  if (random_.unit() < 0.5) {
    // Not far.
    const std::int32_t reach = std::min(high - low, 64);
    to = std::clamp(slot - reach / 2 + random_.below(reach), low + 1, high - 1);
  } else {
    to = low + 1 + random_.below(high - low - 1);
  }
  while (to < high && editor_.op_at(to) >= 0) ++to;
  if (to >= high) return false;
  for (const ValueId v : problem_.reads[op]) {
    if (editor_.tracked(v) && !problem_.view_of.empty() && problem_.view_of[v] >= 0 &&
        !editor_.view_is_current(v, to)) {
      return false;
    }
  }
  over_from_ = std::min({over_from_, slot, to});
  over_to_ = std::max({over_to_, slot, to});
  work_ += 6;
  editor_.move_first(op, to);
  return true;
}

bool LocalSearch::change(double most_seconds) {
  ++tabu_;
  over_from_ = editor_.slot_count();
  over_to_ = 0;
  if (may_reorder_ && random_.unit() < kOrderShare) {
    if (!try_order_move()) return false;
    if (!repair(most_seconds)) return false;
    try_removals(kTries);
    return true;
  }
  int removed = 0;
  do {
    const auto count = static_cast<std::int32_t>(editor_.again().size());
    if (count == 0) break;
    std::int32_t slot = editor_.again()[at(random_.below(count))];
    if (removed > 0) {
      for (int i = 0; i < 4; ++i) {
        const std::int32_t other = editor_.again()[at(random_.below(count))];
        if (std::abs(other - over_to_) < std::abs(slot - over_to_)) slot = other;
      }
    }
    if (!editor_.removable(slot)) continue;
    for (const ValueId v : problem_.outputs[editor_.op_at(slot)]) {
      if (v >= 0) tabu_round_[v] = tabu_;
    }
    remove_cascade(slot);
  } while (++removed < kMostTogether && random_.unit() < kOneMoreShare);
  if (removed == 0) return false;
  if (!repair(most_seconds)) return false;
  try_removals(kTries);
  return true;
}

bool LocalSearch::fit(Schedule& schedule, std::int64_t arena_limit) {
  SearchClock clock(kFitWorkPerOp * problem_.op_count(), 0);
  return fit(schedule, arena_limit, clock);
}

bool LocalSearch::fit(Schedule& schedule, std::int64_t arena_limit, SearchClock& clock) {
  limit_ = arena_limit;
  tight_slot_ = -1;
  const std::size_t most = 2 * schedule.size() + 200;
  editor_.load(schedule);
  over_from_ = 0;
  int failures = 0;
  // Two values may drive each other out for ever.
  for (std::size_t step = 0; step < most && !fits() && failures < kMostFailures; ++step) {
    clock.spend(work_ * kWorkUnit);
    work_ = 0;
    if (clock.done() >= 1) break;
    ++tabu_;
    over_to_ = editor_.slot_count();
    if (drop_at(editor_.profile().argmax(), kFitSample, kInfinite)) {
      editor_.forget();
    } else if (tight_slot_ >= 0) {
      make_room();
    } else {
      editor_.undo(0);
      ++failures;
    }
  }
  schedule = editor_.schedule();
  return fits();
}

void LocalSearch::improve(Schedule& schedule, std::int64_t arena_limit, SearchClock& clock) {
  limit_ = arena_limit;
  tight_slot_ = -1;
  editor_.load(schedule);
  if (!fits() || editor_.again().empty()) return;
  double mean = 0;
  for (const std::int32_t slot : editor_.again()) mean += seconds_of(editor_.op_at(slot));
  mean /= static_cast<double>(editor_.again().size());
  const double before = clock.done();
  double best = editor_.seconds();
  double current = best;
  double done = before;
  std::size_t cycle = 0;
  for (std::int64_t round = 0; !editor_.again().empty(); ++round) {
    if (round % 16 == 0) {
      clock.spend(work_ * kWorkUnit);
      work_ = 0;
      done = clock.done();
      if (done >= 1) break;
    }
    work_ += 4;
    const double phase = (done - before) / (1 - before) * kCycles;
    if (static_cast<std::size_t>(phase) != cycle) {
      // Another cycle, from the best so far.
      cycle = static_cast<std::size_t>(phase);
      editor_.load(schedule);
      current = editor_.seconds();
    }
    const double first = kFirstTemperatures[cycle % std::size(kFirstTemperatures)];
    const double temperature =
        mean * first * std::pow(kLastTemperature / first, phase - static_cast<double>(cycle));
    if (change(current - temperature * std::log(1 - random_.unit()))) {
      editor_.forget();
      tight_slot_ = -1;
      if (editor_.seconds() < best * (1 - 1e-12)) {
        best = editor_.seconds();
        schedule = editor_.schedule();
      }
    } else if (tight_slot_ >= 0) {
      make_room();
    } else {
      editor_.undo(0);
    }
    current = editor_.seconds();
  }
}

}  // namespace plimsoll::planner
