// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/planner/bound/bound_model.h"

namespace plimsoll::planner {

// The time steps at which keeping everything is too much; only these have a price.
struct TightTimeSteps {
  std::vector<std::int32_t> time_steps;
  std::vector<std::int32_t>
      rank;  // per time step, and one past: how many tight ones come before it
  std::vector<std::int64_t> available;  // per tight time step
};

// At most `most` of them: the tightest of each stretch of the order.
TightTimeSteps find_tight(const BoundModel& model, std::int64_t arena_limit, std::size_t most);

// What the limit costs at given prices per byte and time step, by weak duality: every interval
// takes the cheaper of its bytes' rent and of being recomputed, and the rent of what is available
// is paid back. Any prices and any fractions of the shares give a bound.
class BoundPricing {
 public:
  BoundPricing(const BoundModel& model, const TightTimeSteps& tight);

  // Extra seconds that every schedule within the limit takes. One price per tight time step.
  double evaluate(std::span<const double> prices);

  // Of the last evaluation: what evicting in the interval costs; infinite where keeping it is free.
  double drop(std::size_t interval) const { return drop_[interval]; }
  // The same if nothing dead is kept for it.
  double most_drop(std::size_t interval) const;

  // Of the last evaluation: bytes at each tight time step beyond what is available, where the
  // cheapest choices put them. A direction in which the prices rise: a subgradient.
  std::vector<double> excess() const;

  // From now on interval `interval` is assumed to be kept, or evicted, or either.
  enum class Fate : std::uint8_t { open, kept, evicted };
  void set_fate(std::size_t interval, Fate fate) { fate_[interval] = fate; }

  // Moves the fractions of shares towards the intervals that were evicted in the last evaluation
  // and could have counted more.
  void share_again(double rate);

  const IdVector<ShareId, double>& fractions() const { return fraction_; }
  void set_fractions(const IdVector<ShareId, double>& fractions) { fraction_ = fractions; }

  std::int64_t steps_spent() const { return spent_; }

 private:
  struct Paid {
    std::int32_t time_step;
    double price, prefix;  // prefix: of the prices before it
  };

  std::int32_t paid_before(std::int32_t time_step) const {
    return paid_rank_[at(tight_.rank[at(time_step)])];
  }
  double prefix(std::int32_t k) const { return paid_[at(k)].prefix; }
  double fraction(const Recomputation& r) const;
  double most_recompute_cost(const Interval& interval) const;
  double substitute_cost(const Interval& interval, double rent_per_byte) const;
  void find_own_part(std::size_t interval);
  double drop_cost(const Interval& interval, double keep);
  void count_gains(const Interval& interval);
  void count_losses(std::size_t interval, bool kept);
  void share_living(double rate);
  void add_load(std::int32_t first, std::int32_t end, double bytes);
  void count_load(std::size_t interval, bool kept);

  const BoundModel& model_;
  const TightTimeSteps& tight_;
  IdVector<ShareId, double> fraction_;
  IdVector<ShareId, double> gain_;  // of the last evaluation
  IdVector<ShareId, double> loss_;  // for shares of living storages: what its interval counted less
  IdVector<ValueId, double> most_gain_, sum_;
  std::vector<Fate> fate_;  // per interval
  std::vector<double> drop_;
  std::vector<double> load_;             // per tight time step, as differences
  std::vector<Paid> paid_;               // the time steps with a price, and one past
  std::vector<std::int32_t> paid_rank_;  // per tight time step, and one past
  // Scratch of one interval: the cost of each recomputation's storage, who was recomputed at which
  // stage, and the best stage.
  std::vector<double> cost_;
  std::vector<char> recomputed_;
  std::int32_t best_stage_ = 0;
  // Of an interval that others have shares in, counted from its first time step with a price: the
  // sums of its own parts of the prices, and its own part of the runs in each stage.
  std::vector<double> own_prefix_, own_runs_;
  std::vector<std::pair<std::int32_t, std::int32_t>> visits_;
  std::int64_t spent_ = 0;
};

// Prices and fractions, and the extra seconds that they prove.
struct BoundProof {
  double value = 0;
  std::vector<double> prices;
  IdVector<ShareId, double> fractions;
};

}  // namespace plimsoll::planner
