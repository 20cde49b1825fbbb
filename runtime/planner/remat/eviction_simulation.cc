// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remat/eviction_simulation.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/index.h"

// An eviction simulation: the order of ops is run once on the books, and when an op does not fit,
// resident values are evicted until it does. It is DTR (Kirisame et al., ICLR 2021) with the future
// known: staleness is replaced by the time until the next use.
//
// Example: limit 100; a (40 bytes, 1 s, next used by op 9), b (40 bytes, 5 s, next used by op 5),
// and op 3 needs 60 bytes for its result. Scores cost / (bytes * interval): a 1 / (40 * 6), b 5 /
// (40 * 2). The lower one, a, is evicted: it is cheap and not wanted for long. 40 + 60 bytes fit.
// When op 9 comes, a is missing: its producer, and whatever of the producer's operands is missing
// by then, is recomputed right before op 9 (collect), with every operand of these pinned until
// it was read (`need_`).
//
// The heap is lazy. A score grows while a value waits, since its next use comes nearer, and changes
// when a value it depends on goes or comes. Rather than keep all scores right, the lowest is taken,
// scored anew, and put back if it is not the lowest any more; `version_` says which entries of a
// value are old. A simulation takes about n log n steps for n executions.
//
// One simulation is rarely the best: what it evicts first may turn out to be wanted together with
// what it kept. Hence a portfolio of styles, improvement of what comes out (improve.cc), and
// searches over the scores (weight_search.cc) and over schedules (local_search.cc).

namespace plimsoll::planner {
namespace {

// Ancestors looked at to price one value exactly; beyond that the estimate of earlier prices does.
constexpr int kMostAncestors = 48;

// Of one_by_one: how far it goes back, and how often it begins again for one op.
constexpr int kMostDepth = 2'000;
constexpr int kMostTries = 24;

}  // namespace

std::size_t most_executions(const Problem& problem) {
  const int n = problem.op_count();
  const std::size_t factor = n <= 3'000 ? 12 : n <= 30'000 ? 6 : 3;
  return at(n) * factor + 64;
}

EvictionSimulation::EvictionSimulation(const Problem& problem, std::int64_t min_bytes)
    : problem_(problem), min_bytes_(min_bytes) {
  const std::size_t values = problem.values.size();
  arena_.resize(values);
  can_evict_.resize(values);
  for (const ValueId v : problem.values.ids()) {
    const Value& value = problem.values[v];
    arena_[v] = value.home == Home::arena;
    can_evict_[v] = arena_[v] && !value.live_out && !value.keep && value.producer >= 0 &&
                    value.bytes > 0 && value.bytes >= min_bytes &&
                    problem.ops[value.producer].recomputable;
  }
  if (!problem.view_of.empty()) views_ = list_views(problem);
  prefix_seconds_.resize(problem.ops.size());
  double sum = 0;
  for (const OpId op : problem.ops.ids()) {
    sum += problem.ops[op].seconds;
    prefix_seconds_[op] = sum;
  }
  for (const OpId op : problem.ops.ids()) {
    for (const ValueId v : problem.reads[op]) {
      if (arena_[v] && problem.values[v].producer >= 0) ancestors_.push(v);
    }
    ancestors_.close();
  }
  producer_.resize(values);
  last_use_.resize(values);
  for (const ValueId v : problem.values.ids()) {
    producer_[v] = problem.values[v].producer;
    if (!problem.uses[v].empty()) last_use_[v] = problem.uses[v].back();
  }
  stamp_.assign(problem.ops.size(), 0);
  value_stamp_.assign(values, 0);
}

void EvictionSimulation::set_profile(const std::vector<std::int64_t>& profile,
                                     std::int64_t arena_limit) {
  weight_.assign(profile.size() + 1, 0);
  for (OpId t(0); const std::int64_t bytes : profile) {
    const double excess = static_cast<double>(std::max<std::int64_t>(0, bytes - arena_limit));
    weight_[t + 1] =
        weight_[t] + excess / static_cast<double>(std::max<std::int64_t>(1, bytes)) + 1e-3;
    ++t;
  }
}

void EvictionSimulation::set_prices(std::span<const double> prices) {
  double sum = 0;
  for (const double price : prices) sum += price;
  // Intervals have a length where bytes are free, too.
  const double least = 1e-3 * sum / static_cast<double>(std::max<std::size_t>(1, prices.size()));
  weight_.assign(prices.size() + 1, 0);
  for (OpId t(0); const double price : prices) {
    weight_[t + 1] = weight_[t] + price + least;
    ++t;
  }
}

// The first use in the order after the op being run.
OpId EvictionSimulation::next_use(ValueId v) {
  const auto uses = problem_.uses[v];
  auto& next = next_[v];
  while (next < static_cast<std::int32_t>(uses.size()) && uses[at(next)] <= now_) ++next;
  return next < static_cast<std::int32_t>(uses.size()) ? uses[at(next)] : kNever;
}

// When a value will be wanted again: its next use, or for a value without one the next use of
// something made from it (kNever: not at all).
//
// A value without a next use may still be worth keeping: it may be what a recomputation needs.
// Example: b = g(a), a is dead, b is wanted at op 50 and was evicted. With a at hand b costs g;
// without it, f and g. `keep_dead` styles hold a until memory is short, with half its score.
OpId EvictionSimulation::wanted_at(ValueId v) {
  const OpId next = next_use(v);
  if (next != kNever || !style_.keep_dead) return next;
  OpId soonest = kNever;
  int looked = 0;
  for (const OpId user : problem_.uses[v]) {
    for (const ValueId o : problem_.outputs[user]) {
      if (o >= 0 && arena(o)) soonest = std::min(soonest, next_use(o));
    }
    if (++looked == 8) break;
  }
  return soonest;
}

// Seconds to make `v` again at op `at_op`, by what will be there then.
//
// Counts the producers of all missing ancestors. Beyond kMostAncestors the estimate that the
// ancestor had when it was evicted stands for the rest, so that long chains don't make every score
// linear in their length. It can't be more than running everything up to the value once.
double EvictionSimulation::recompute_seconds(ValueId v, OpId at_op) {
  ++value_round_;
  search_.clear();
  search_.push_back(v);
  value_stamp_[v] = value_round_;
  double seconds = 0;
  for (std::size_t i = 0; i < search_.size(); ++i) {
    const ValueId missing = search_[i];
    const OpId producer = producer_[missing];
    if (i >= kMostAncestors) {
      seconds += chain_seconds_[missing];
      continue;
    }
    // A value that was never read since it was made is only moved.
    if (!(i == 0 && fresh_[v])) seconds += problem_.ops[producer].seconds;
    for (const ValueId r : ancestors_[producer]) {
      if (value_stamp_[r] == value_round_) continue;
      if (resident_[r] && (style_.keep_dead || last_use_[r] >= at_op)) continue;
      value_stamp_[r] = value_round_;
      search_.push_back(r);
    }
  }
  return std::min(seconds, prefix_seconds_[producer_[v]]);
}

bool EvictionSimulation::evictable(ValueId v) {
  return can_evict_[v] && resident_[v] && need_[v] == 0 && problem_.values[v].kept_until <= now_;
}

double EvictionSimulation::score(ValueId v) {
  const OpId wanted = wanted_at(v);
  scored_seconds_ = 0;
  if (wanted == kNever) return -1;
  const double bytes = static_cast<double>(problem_.values[v].bytes);
  double interval = static_cast<double>(wanted - now_);
  if (style_.weighted_interval) interval = weight_[wanted] - weight_[now_];
  double cost = scored_seconds_ = recompute_seconds(v, wanted);
  if (style_.cost_power != 1) cost = std::pow(cost, style_.cost_power);
  if (style_.interval_power != 1)
    interval = style_.interval_power == 0 ? 1 : std::pow(interval, style_.interval_power);
  double result = cost / (bytes * interval);
  if (next_use(v) == kNever) result *= 0.5;
  if (!style_.weight.empty()) result *= style_.weight[v];
  if (!style_.keep.empty() && style_.keep[v]) result *= 1e9;
  return result;
}

void EvictionSimulation::offer(ValueId v) {
  if (!evictable(v)) return;
  const OpId next = next_use(v);
  // Recomputing it later would read a donated parameter that is overwritten by then.
  if (next != kNever && next > problem_.deadline[v]) return;
  heap_.push_back({score(v), v, ++version_[v]});
  std::push_heap(heap_.begin(), heap_.end());
}

void EvictionSimulation::evict(ValueId v) { evict(v, recompute_seconds(v, now_)); }

void EvictionSimulation::evict(ValueId v, double seconds) {
  chain_seconds_[v] = seconds;
  resident_[v] = 0;
  used_ -= problem_.values[v].bytes;
  undefine_views(v);
}

void EvictionSimulation::undefine_views(ValueId v) {
  if (views_.size() == 0) return;
  for (const ValueId view : views_[v]) resident_[view] = 0;
}

// Evicts the views of what the ops of recompute_set_ recompute although it is still there. True
// when there were some.
bool EvictionSimulation::evict_recomputed_views() {
  bool evicted = false;
  if (views_.size() == 0) return evicted;
  for (const OpId c : recompute_set_) {
    for (const ValueId v : problem_.outputs[c]) {
      if (v < 0) continue;
      for (const ValueId view : views_[v]) {
        evicted = evicted || resident_[view] != 0;
        resident_[view] = 0;
      }
    }
  }
  return evicted;
}

// After its pending reads are done: gone when nothing will want it, else up for eviction.
//
// A value that can be recomputed is a candidate only as long as recomputing it will still be
// possible: past `Problem::deadline` a donated parameter that it comes from has been overwritten,
// so offer() leaves out what is wanted after that.
void EvictionSimulation::release(ValueId v) {
  if (!arena(v) || !resident_[v] || need_[v] > 0 || problem_.values[v].live_out) return;
  const bool gone = can_evict_[v] ? wanted_at(v) == kNever : next_use(v) == kNever;
  if (gone) {
    evict(v);
  } else {
    offer(v);
  }
}

bool EvictionSimulation::make_room(std::int64_t bytes) {
  while (used_ + bytes > limit_) {
    if (heap_.empty()) return false;
    std::pop_heap(heap_.begin(), heap_.end());
    const Entry top = heap_.back();
    heap_.pop_back();
    if (top.version != version_[top.value] || !evictable(top.value)) continue;
    // Scores rise while a value waits: take it only if it is still the lowest.
    const double current = score(top.value);
    if (current > top.score * (1 + 1e-9) && !heap_.empty() && current > heap_.front().score) {
      heap_.push_back({current, top.value, top.version});
      std::push_heap(heap_.begin(), heap_.end());
      continue;
    }
    evict(top.value, scored_seconds_);
  }
  return true;
}

// Adds to recompute_set_ the ops that must run again before `op`; false when one may not.
bool EvictionSimulation::visit_missing(OpId op) {
  stack_.clear();
  stack_.emplace_back(op, 0);
  while (!stack_.empty()) {
    const OpId current = stack_.back().first;
    const auto reads = problem_.reads[current];
    if (stack_.back().second == reads.size()) {
      if (current != op) recompute_set_.push_back(current);
      stack_.pop_back();
      continue;
    }
    const ValueId v = reads[stack_.back().second++];
    if (there(v)) continue;
    const Value& value = problem_.values[v];
    if (value.producer < 0 || stamp_[value.producer] == round_) continue;
    if (!problem_.ops[value.producer].recomputable || problem_.deadline[v] < now_) {
      return false;
    }
    stamp_[value.producer] = round_;
    stack_.emplace_back(value.producer, 0);
  }
  return true;
}

bool EvictionSimulation::collect(OpId op) {
  bool recomputed = false;
  do {
    recompute_set_.clear();
    ++round_;
    if (!visit_missing(op)) return false;
  } while (evict_recomputed_views() && (recomputed = true));
  if (!style_.depth_first || recomputed) std::sort(recompute_set_.begin(), recompute_set_.end());
  recompute_set_.push_back(op);
  for (const OpId c : recompute_set_) {
    for (const ValueId v : problem_.reads[c]) ++need_[v];
  }
  return true;
}

bool EvictionSimulation::execute(OpId op) {
  const Op& what = problem_.ops[op];
  std::int64_t bytes = what.workspace, made = 0, saved = 0;
  for (const ValueId v : problem_.outputs[op]) {
    if (v >= 0 && arena(v) && !resident_[v]) made += problem_.values[v].bytes;
  }
  ValueId taken_input[8];
  ValueId taken_output[8];
  int taken = 0;
  for (const Reuse& r : problem_.reuse[op]) {
    if (taken == 8) break;
    if (!arena(r.input) || !arena(r.output) || resident_[r.output]) continue;
    if (!resident_[r.input] || need_[r.input] != 1 || next_use(r.input) != kNever ||
        problem_.values[r.input].live_out) {
      continue;
    }
    bool used = false;
    for (int i = 0; i < taken; ++i) {
      used = used || taken_input[i] == r.input || taken_output[i] == r.output;
    }
    if (used) continue;
    taken_input[taken] = r.input;
    taken_output[taken++] = r.output;
    saved += problem_.values[r.output].bytes;
  }
  bytes += made - saved;
  if (!make_room(bytes)) return false;
  schedule_.push_back(op);
  for (const ValueId v : problem_.reads[op]) {
    --need_[v];
    fresh_[v] = 0;
  }
  for (int i = 0; i < taken; ++i) evict(taken_input[i]);
  for (const ValueId v : problem_.outputs[op]) {
    if (v < 0) continue;
    fresh_[v] = 1;
    if (!arena(v) || resident_[v]) continue;
    resident_[v] = 1;
    used_ += problem_.values[v].bytes;
  }
  for (const ValueId v : problem_.outputs[op]) {
    if (v >= 0) release(v);
  }
  for (const ValueId v : problem_.reads[op]) release(v);
  return true;
}

// Runs `op` once all it reads is there, which is made depth first; only what ops on the way to here
// are waiting for is pinned.
//
// The last resort for long chains under little memory. collect() restores the whole recompute set
// of an op in order, holding each result until it is read; where that does not fit, this makes one
// operand after the other, each right before it is wanted, and lets those already made be evicted
// again meanwhile. Operands may push each other out: from the second try on what is there is
// pinned, and after kMostTries the simulation stops trying.
bool EvictionSimulation::make_one_by_one(OpId op, int depth) {
  if (depth > kMostDepth) return false;
  std::vector<ValueId> pinned;
  const auto pin = [&](ValueId v) {
    if (std::find(pinned.begin(), pinned.end(), v) != pinned.end()) return;
    pinned.push_back(v);
    ++need_[v];
  };
  bool works = true;
  for (int tries = 0; works; ++tries) {
    ValueId missing;
    for (const ValueId v : problem_.reads[op]) {
      if (there(v)) {
        // What is there may give way to what is missing, but not for ever.
        if (tries > 0) pin(v);
      } else if (missing < 0) {
        missing = v;
      }
    }
    if (missing < 0) break;
    const Value& value = problem_.values[missing];
    pin(missing);
    if (views_.size() != 0 && problem_.view_of[missing] >= 0) {
      pin(problem_.view_of[missing]);
    }
    works = tries < kMostTries && value.producer >= 0 &&
            problem_.ops[value.producer].recomputable && problem_.deadline[missing] >= now_ &&
            make_one_by_one(value.producer, depth + 1);
  }
  for (const ValueId v : problem_.reads[op]) pin(v);
  if (works && views_.size() != 0) {
    for (const ValueId v : problem_.outputs[op]) {
      if (v >= 0) undefine_views(v);
    }
  }
  works = works && schedule_.size() < most_executions_ && execute(op);
  return works;
}

std::optional<Schedule> EvictionSimulation::run(std::int64_t arena_limit,
                                                const SimulationStyle& style,
                                                std::size_t most_executions, double most_seconds) {
  const std::size_t values = problem_.values.size();
  style_ = style;
  limit_ = arena_limit;
  most_executions_ = most_executions;
  used_ = 0;
  resident_.assign(values, 0);
  fresh_.assign(values, 0);
  next_.assign(values, 0);
  need_.assign(values, 0);
  version_.assign(values, 0);
  chain_seconds_.assign(values, 0);
  heap_.clear();
  schedule_.clear();
  double seconds = 0;
  for (const OpId op : problem_.ops.ids()) {
    now_ = op;
    if (style.one_by_one) {
      const std::size_t before = schedule_.size();
      if (!make_one_by_one(op, 0)) return std::nullopt;
      for (std::size_t i = before; i < schedule_.size(); ++i) {
        seconds += problem_.ops[schedule_[i]].seconds;
      }
      if (seconds > most_seconds) return std::nullopt;
      continue;
    }
    if (!collect(op)) return std::nullopt;
    if (schedule_.size() + recompute_set_.size() > most_executions) return std::nullopt;
    for (const OpId c : recompute_set_) seconds += problem_.ops[c].seconds;
    if (seconds > most_seconds) return std::nullopt;
    for (std::size_t i = 0; i < recompute_set_.size(); ++i) {
      if (!execute(recompute_set_[i])) return std::nullopt;
    }
  }
  return schedule_;
}

}  // namespace plimsoll::planner
