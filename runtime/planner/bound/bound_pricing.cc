// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/bound/bound_pricing.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/base/index.h"

// The Lagrangian bound.
//
// What is bounded. The order of first executions is fixed; time step t is the first run of op t.
// Between two touches of a storage lies a retention interval g: b_g bytes over the time steps
// first..last. A schedule keeps the bytes there, or evicts them and recomputes them (or restores
// them in another form) in time for the touch at the end. need(t) lies in the arena at t
// whatever is done, so that limit - need(t) = available(t) is left for intervals. Wanted: the least
// extra seconds, over all choices, such that the load of intervals at every time step is at most
// what is available there. That is hard; a lower bound is not.
//
// Derivation. Give every time step a price p_t >= 0, in seconds per byte, and let a schedule pay
// p_t (load_t - available_t) beside its seconds. For one that fits, load_t <= available_t, so that
// it pays no more than its seconds: the least payment over *all* choices, those that do not fit
// included, is a bound. Without the constraints that couple them, intervals choose for themselves:
//   bound(p) = sum over g of min(keep_g, drop_g) - sum over t of p_t available_t
//   keep_g   = b_g * (sum of p_t over the interval's time steps)             the rent of its bytes
//   drop_g   = the least that doing without costs at these prices      drop_cost(), substitutes
// Any prices prove a bound (weak duality); good prices prove a good one. It is stronger than the
// linear program over intervals, as drop_g is itself a minimum over the ways to be without.
//
// Example. Room for 100 bytes at one tight time step; A has 100 bytes and takes 3 s to recompute,
// B 100 bytes and 5 s. At p = 0.03: A pays min(3, 3), B pays min(3, 5), and 3 is paid back: the
// bound is 3 + 3 - 3 = 3 s, which is what evicting A takes. At p = 0.01 it is 1 + 1 - 1 = 1 s, at
// p = 0.05 it is 3 + 5 - 5 = 3 s.
//
// What is recomputed may need what is dead. To recompute g its op reads other storages. One that
// is dead by then (after its last touch) must be there, too: either its bytes stayed since its
// death, which costs rent, or it is recomputed itself, which costs seconds and may need others in
// turn. Many intervals may want the same dead storage, and one copy may serve them all, so that
// each may count only a part of its cost: fractions f_c of shares c, which add up to at most 1 per
// dead storage. Any such fractions prove a bound; share_again() moves them to the intervals that
// can use them. Within one interval a storage may be wanted along several ways (`paths`); each way
// counts an equal part.
//
// Living storages may be shared as well: an interval that is itself evicted around the time step
// at which another wants its storage must be made earlier, or twice. What such shares take of an
// interval's bytes and runs is no longer the interval's own (find_own_part), so that again nothing
// is counted twice.

namespace plimsoll::planner {
namespace {}  // namespace

TightTimeSteps find_tight(const BoundModel& model, std::int64_t arena_limit, std::size_t most) {
  std::vector<std::int64_t> excess(model.need.size() + 1, 0);
  for (const Interval& interval : model.intervals) {
    excess[at(interval.first)] += interval.bytes;
    excess[at(interval.last + 1)] -= interval.bytes;
  }
  std::int64_t live = 0;
  std::size_t count = 0;
  for (std::int32_t t = 0; t < model.time_steps; ++t) {
    live += excess[at(t)];
    excess[at(t)] = live + model.need[at(t)] - arena_limit;
    if (excess[at(t)] > 0) ++count;
  }
  const std::size_t stride = count <= most ? 1 : (count + most - 1) / most;
  TightTimeSteps tight;
  tight.rank.assign(model.need.size() + 1, 0);
  std::vector<char> taken(model.need.size(), 0);
  std::int32_t tightest = -1;
  std::size_t seen = 0;
  for (std::int32_t t = 0; t < model.time_steps; ++t) {
    if (excess[at(t)] <= 0) continue;
    if (tightest < 0 || excess[at(t)] > excess[at(tightest)]) tightest = t;
    if (++seen % stride == 0 || seen == count) {
      taken[at(tightest)] = 1;
      tightest = -1;
    }
  }
  for (std::int32_t t = 0; t < model.time_steps; ++t) {
    tight.rank[at(t)] = static_cast<std::int32_t>(tight.time_steps.size());
    if (!taken[at(t)]) continue;
    tight.time_steps.push_back(t);
    tight.available.push_back(arena_limit - model.need[at(t)]);
  }
  tight.rank[model.need.size()] = static_cast<std::int32_t>(tight.time_steps.size());
  return tight;
}

BoundPricing::BoundPricing(const BoundModel& model, const TightTimeSteps& tight)
    : model_(model), tight_(tight) {
  fraction_.reserve(model.shares.size());
  for (const Share& c : model.shares) fraction_.push_back(c.fraction);
  gain_.assign(model.shares.size(), 0);
  loss_.assign(model.shares.size(), 0);
  most_gain_.assign(model.bytes.size(), 0);
  sum_.assign(model.bytes.size(), 0);
  drop_.assign(model.intervals.size(), kInfinite);
  fate_.assign(model.intervals.size(), Fate::open);
}

double BoundPricing::fraction(const Recomputation& r) const {
  return r.share < 0 ? 1 : fraction_[r.share] / r.paths;
}

// All that recomputing the interval's storage can cost when nothing dead was kept for it: its own
// runs, and its part of those of everything dead that it needs. What drop_cost() gives is never
// more.
double BoundPricing::most_recompute_cost(const Interval& interval) const {
  double cost = model_.recomputations[at(interval.first_recomputation)].seconds;
  for (std::int32_t i = 1; i < interval.recomputations; ++i) {
    const Recomputation& r = model_.recomputations[at(interval.first_recomputation + i)];
    if (r.seconds < kInfinite) cost += r.seconds * fraction(r);
  }
  return cost;
}

double BoundPricing::most_drop(std::size_t interval) const {
  return std::min(most_recompute_cost(model_.intervals[interval]),
                  substitute_cost(model_.intervals[interval], 0));
}

double BoundPricing::substitute_cost(const Interval& interval, double rent_per_byte) const {
  double cost = kInfinite;
  for (std::int32_t i = 0; i < interval.substitutes; ++i) {
    const IntervalSubstitute& s = model_.substitutes[at(interval.first_substitute + i)];
    cost = std::min(cost, s.seconds + static_cast<double>(s.bytes) * rent_per_byte);
  }
  return cost;
}

// Only time steps with a price matter: `paid_` lists them with the sum of the prices before each,
// so that the rent of an interval is one subtraction, whatever its length. With prices at 3 of
// 10,000 time steps an evaluation takes time linear in the number of intervals.
//
// An interval with a fate (bound_branch.cc) pays what that costs even where the other way is
// cheaper: that is what makes the bound of a branch rise.
double BoundPricing::evaluate(std::span<const double> prices) {
  paid_.clear();
  paid_rank_.assign(prices.size() + 1, 0);
  double sum = 0, paid_back = 0;
  for (std::size_t i = 0; i < prices.size(); ++i) {
    paid_rank_[i] = static_cast<std::int32_t>(paid_.size());
    if (prices[i] <= 0) continue;
    paid_.push_back({tight_.time_steps[i], prices[i], sum});
    sum += prices[i];
    paid_back += prices[i] * static_cast<double>(tight_.available[i]);
  }
  paid_rank_[prices.size()] = static_cast<std::int32_t>(paid_.size());
  paid_.push_back({model_.time_steps, 0, sum});
  std::fill(gain_.begin(), gain_.end(), 0);
  std::fill(loss_.begin(), loss_.end(), 0);
  load_.assign(prices.size() + 1, 0);
  double total = 0;
  for (std::size_t g = 0; g < model_.intervals.size(); ++g) {
    const Interval& interval = model_.intervals[g];
    drop_[g] = kInfinite;
    const std::int32_t begin = paid_before(interval.first), end = paid_before(interval.last + 1);
    if (begin == end && fate_[g] == Fate::open) {
      count_load(g, true);
      continue;
    }
    find_own_part(g);
    const double full = static_cast<double>(interval.bytes) * (prefix(end) - prefix(begin));
    const double keep = static_cast<double>(interval.bytes) * own_prefix_.back();
    drop_[g] = drop_cost(interval, fate_[g] == Fate::evicted ? kInfinite : keep);
    const double other = substitute_cost(interval, own_prefix_.back());
    const bool kept =
        fate_[g] == Fate::kept || (fate_[g] == Fate::open && keep <= std::min(drop_[g], other));
    if (!kept && drop_[g] <= other && interval.recomputations > 1) count_gains(interval);
    if (!model_.shares_on[IntervalId(g)].empty()) count_losses(g, kept);
    if (kept || drop_[g] <= other) count_load(g, kept);
    drop_[g] = std::min(drop_[g], other);
    total += kept ? keep : drop_[g];
    // As if all of the rent were its own.
    drop_[g] += full - keep;
  }
  spent_ += static_cast<std::int64_t>(prices.size() + 4 * model_.intervals.size());
  return total - paid_back;
}

// What the shares of others take of an interval is taken off its own rent and runs. Example: an
// interval over the paid time steps 4, 5, 6 at prices 0.1, 0.2, 0.1; another interval has a share
// of 0.25 in it over the time steps 5..6. Its own rent per byte is 0.1 + 0.75 * 0.2 + 0.75 * 0.1 =
// 0.325; a run in a stage of 5..6 counts 0.75 of its seconds here, and 0.25 with the other.
void BoundPricing::find_own_part(std::size_t g) {
  const Interval& interval = model_.intervals[g];
  const std::int32_t begin = paid_before(interval.first), end = paid_before(interval.last + 1);
  own_prefix_.resize(at(end - begin + 1));
  own_runs_.clear();
  const auto shares = model_.shares_on[IntervalId(g)];
  if (shares.empty()) {
    for (std::int32_t k = begin; k <= end; ++k) {
      own_prefix_[at(k - begin)] = prefix(k) - prefix(begin);
    }
    return;
  }
  // Differences of what the shares of others take: of time steps, then of stages.
  own_prefix_.assign(at(end - begin + 1), 0);
  own_runs_.assign(at(end - begin + 2), 0);
  for (const ShareId c : shares) {
    const std::int32_t from = std::max(0, paid_before(model_.shares[c].first) - begin);
    const std::int32_t to = paid_before(model_.shares[c].last + 1) - begin;
    own_prefix_[at(from)] += fraction_[c];
    own_prefix_[at(to)] -= fraction_[c];
    own_runs_[at(from)] += fraction_[c];
    own_runs_[at(to + 1)] -= fraction_[c];
  }
  double others = 0, stages = 0, sum = 0;
  for (std::int32_t k = begin; k <= end; ++k) {
    stages += own_runs_[at(k - begin)];
    own_runs_[at(k - begin)] = std::max(0.0, 1 - stages);
    others += own_prefix_[at(k - begin)];
    own_prefix_[at(k - begin)] = sum;
    if (k < end) sum += paid_[at(k)].price * std::max(0.0, 1 - others);
  }
  own_runs_.pop_back();
  spent_ += 2 * static_cast<std::int64_t>(end - begin) + static_cast<std::int64_t>(shares.size());
}

void BoundPricing::add_load(std::int32_t first, std::int32_t end, double bytes) {
  load_[at(first)] += bytes;
  load_[at(end)] -= bytes;
}

void BoundPricing::count_load(std::size_t g, bool kept) {
  const Interval& interval = model_.intervals[g];
  const std::int32_t end = tight_.rank[at(interval.last + 1)];
  std::int32_t first = tight_.rank[at(interval.first)];
  if (!kept) first = std::min(end, tight_.rank[at(paid_[at(best_stage_)].time_step)]);
  const auto bytes = static_cast<double>(interval.bytes);
  add_load(first, end, bytes);
  for (const ShareId c : model_.shares_on[IntervalId(g)]) {
    const Share& share = model_.shares[c];
    const std::int32_t to = tight_.rank[at(share.last + 1)];
    const std::int32_t from = std::max(first, tight_.rank[at(share.first)]);
    if (from < to) add_load(from, to, -fraction_[c] * bytes);
  }
}

std::vector<double> BoundPricing::excess() const {
  std::vector<double> excess(tight_.available.size());
  double load = 0;
  for (std::size_t t = 0; t < excess.size(); ++t) {
    load += load_[t];
    excess[t] = load - static_cast<double>(tight_.available[t]);
  }
  return excess;
}

// What each share in the interval takes from it.
void BoundPricing::count_losses(std::size_t g, bool kept) {
  const Interval& interval = model_.intervals[g];
  const std::int32_t begin = paid_before(interval.first);
  const double seconds = model_.recomputations[at(interval.first_recomputation)].seconds;
  for (const ShareId c : model_.shares_on[IntervalId(g)]) {
    const std::int32_t from = std::max(begin, paid_before(model_.shares[c].first));
    const std::int32_t to = paid_before(model_.shares[c].last + 1);
    const std::int32_t lives_from = kept ? from : std::max(from, best_stage_);
    double loss = 0;
    if (lives_from < to)
      loss = static_cast<double>(interval.bytes) * (prefix(to) - prefix(lives_from));
    if (!kept && from <= best_stage_ && best_stage_ <= to) loss += seconds;
    loss_[c] = loss;
  }
}

// The cheapest stage in which to recompute the interval's storage: its runs, its bytes from then
// on, and for all dead storages that are read, their runs or their bytes since their death. Stage k
// is the one after k time steps with a price: between those nothing changes but for the worse.
//
// A recurrence over stages. Let c_i(k) be the least that having dead storage i at hand in stage k
// costs: it was there in stage k - 1 and its bytes stayed for one more paid time step, or it is
// recomputed now, from what that needs:
//   c_i(k) = min(c_i(k - 1) + part_i * price_(k-1) * bytes_i,
//                part_i * seconds_i + sum of c_n(k) over n in needs(i))
// with c_i = 0 as long as the storage lives anyway (`free_until`). Needs stand behind what needs
// them in the list, so going through it backwards finds them known. Then
//   drop = min over k of
//            seconds_0 + bytes_0 * (sum of prices from k on) + sum of c_n(k) over n in needs(0)
// Example: v, 10 bytes, is made in 2 s from d, 4 bytes, dead since before the interval, itself made
// in 1 s from a parameter. The interval covers three paid time steps at 0.15 each, so keeping v
// costs 4.5. Making v at once (k = 0) costs 2 + 10 * 0.45 = 6.5; making it at the end costs 2 for v
// and the cheaper of d's rent, 4 * 0.45 = 1.8, and its run, 1: 3 s. So drop_cost is 3, d was
// recomputed, and the interval is evicted.
double BoundPricing::drop_cost(const Interval& interval, double keep) {
  const Recomputation* recomputations = &model_.recomputations[at(interval.first_recomputation)];
  const std::int32_t begin = paid_before(interval.first), end = paid_before(interval.last + 1);
  best_stage_ = end;
  if (interval.recomputations == 1 && own_runs_.empty()) return recomputations[0].seconds;
  // What is needed later costs nothing less: no use in looking closer.
  if (recomputations[0].seconds >= keep && own_runs_.empty()) return most_recompute_cost(interval);
  spent_ += static_cast<std::int64_t>(end - begin + 1) * interval.recomputations;
  cost_.assign(at(interval.recomputations), 0);
  recomputed_.assign(at(interval.recomputations) * at(end - begin + 1), 0);
  double best = kInfinite;
  for (std::int32_t k = begin; k <= end; ++k) {
    for (std::int32_t i = interval.recomputations - 1; i >= 1 && k > begin; --i) {
      const Recomputation& r = recomputations[i];
      const Paid& before = paid_[at(k - 1)];
      // Alive still, or kept for no more than its life: nothing is paid.
      if (before.time_step <= r.free_until) continue;
      const double part = fraction(r);
      double again = kInfinite;
      if (before.time_step < r.latest.value() && r.seconds < kInfinite) {
        again = r.seconds * part;
        for (std::int32_t n = 0; n < r.needs; ++n) {
          again += cost_[at(model_.needs[at(r.first_need + n)])];
        }
      }
      const double kept =
          cost_[at(i)] + part * before.price * static_cast<double>(model_.least_bytes[r.storage]);
      if (again < kept) recomputed_[at(k - begin) * at(interval.recomputations) + at(i)] = 1;
      cost_[at(i)] = std::min(kept, again);
    }
    double total =
        recomputations[0].seconds * (own_runs_.empty() ? 1 : own_runs_[at(k - begin)]) +
        static_cast<double>(interval.bytes) * (own_prefix_.back() - own_prefix_[at(k - begin)]);
    for (std::int32_t n = 0; n < recomputations[0].needs; ++n) {
      total += cost_[at(model_.needs[at(recomputations[0].first_need + n)])];
    }
    if (total < best) {
      best = total;
      best_stage_ = k;
    }
  }
  return best;
}

// What each share of an interval that is evicted would count more at a larger fraction.
//
// Follows the choices of the last drop_cost() backwards from the best stage: along each way the
// storage was rented time step by time step until the stage in which it ran again, and from there
// its own needs go on. The sum of what was paid, at a whole fraction, is the share's gain.
void BoundPricing::count_gains(const Interval& interval) {
  const Recomputation* recomputations = &model_.recomputations[at(interval.first_recomputation)];
  const std::int32_t begin = paid_before(interval.first);
  const auto visit_needs = [&](const Recomputation& r, std::int32_t k) {
    for (std::int32_t n = 0; n < r.needs; ++n) {
      visits_.emplace_back(model_.needs[at(r.first_need + n)], k);
    }
  };
  visits_.clear();
  visit_needs(recomputations[0], best_stage_);
  while (!visits_.empty()) {
    auto [i, k] = visits_.back();
    visits_.pop_back();
    const Recomputation& r = recomputations[i];
    const double part = 1.0 / r.paths;
    double gain = 0;
    for (; k > begin; --k) {
      ++spent_;
      const Paid& before = paid_[at(k - 1)];
      if (before.time_step <= r.free_until) break;
      if (recomputed_[at(k - begin) * at(interval.recomputations) + at(i)]) {
        gain += r.seconds * part;
        visit_needs(r, k);
        break;
      }
      const auto bytes = static_cast<double>(model_.least_bytes[r.storage]);
      gain += part * before.price * bytes;
      const std::int32_t time_step = tight_.rank[at(before.time_step)];
      add_load(time_step, time_step + 1, fraction(r) * bytes);
    }
    gain_[r.share] += gain;
  }
}

// Multiplicative weights: a share's fraction is multiplied by exp(rate * (gain / greatest gain -
// 1)), so that the share that gains most keeps its fraction and the others lose some; then the
// fractions of each dead storage are brought back to a sum of (a little less than) 1. A share never
// falls to zero, so that it can come back when prices change.
void BoundPricing::share_again(double rate) {
  constexpr double kLeast = 1e-6;
  const auto dead = [&](ShareId c) { return model_.shares[c].interval < 0; };
  for (const ShareId c : gain_.ids()) {
    double& most = most_gain_[model_.shares[c].storage];
    if (dead(c)) most = std::max(most, gain_[c]);
  }
  for (const ShareId c : gain_.ids()) {
    if (!dead(c)) continue;
    const ValueId storage = model_.shares[c].storage;
    const double most = most_gain_[storage];
    if (most > 0) fraction_[c] *= std::exp(rate * (gain_[c] / most - 1));
    fraction_[c] = std::max(fraction_[c], kLeast);
    sum_[storage] += fraction_[c];
  }
  // A little less than all of it, so that rounding never counts anything twice.
  for (const ShareId c : gain_.ids()) {
    if (dead(c)) fraction_[c] /= sum_[model_.shares[c].storage] * (1 + 1e-12);
  }
  for (const Share& c : model_.shares) sum_[c.storage] = most_gain_[c.storage] = 0;
  share_living(rate);
  spent_ += static_cast<std::int64_t>(6 * gain_.size());
}

void BoundPricing::share_living(double rate) {
  constexpr double kLeast = 1e-5, kMost = 1 - 1e-9;
  for (const IntervalId g : model_.shares_on.ids()) {
    double sum = 0;
    for (const ShareId c : model_.shares_on[g]) {
      const double gain = gain_[c], loss = loss_[c];
      double& fraction = fraction_[c];
      if (gain + loss > 0) fraction *= std::exp(rate * (gain - loss) / (gain + loss));
      fraction = std::max(fraction, kLeast);
      sum += fraction;
    }
    if (sum <= kMost) continue;
    for (const ShareId c : model_.shares_on[g]) fraction_[c] *= kMost / sum;
  }
}

}  // namespace plimsoll::planner
