// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/pack/pack.h"

#include <algorithm>

#include "runtime/base/index.h"
#include "runtime/planner/pack/pack_core.h"
#include "runtime/planner/pack/pack_fit.h"
#include "runtime/planner/pack/pack_instance.h"
#include "runtime/planner/pack/pack_portfolio.h"
#include "runtime/planner/pack/pack_rank.h"

namespace plimsoll::planner {
namespace {

// Per unit of effort: at least, and per buffer of those that count.
constexpr std::int64_t kWork = 20'000'000, kWorkPerItem = 130'000;
constexpr std::size_t kItemsThatCount = 5'000;
constexpr std::size_t kManyItems = 200'000;
// A search of more than these takes longer than to fit them in one after the other.
constexpr std::size_t kMostSearchedFirst = 2'000;

class Packer {
 public:
  Packer(const PackInstance& instance, std::int64_t target, PackBudget& budget)
      : instance_(instance),
        target_(target),
        goal_(std::max(instance.max_load, target)),
        budget_(budget) {}

  PackSolution run() {
    for (const auto hole : {PackFit::Hole::smallest, PackFit::Hole::lowest}) {
      PackSolution swept = pack_sweep(instance_, hole);
      budget_.spend(static_cast<std::int64_t>(instance_.items.size()) * 300);
      if (best_.offsets.empty() || swept.height < best_.height) best_ = std::move(swept);
      budget_.found(best_.height);
      if (done()) return std::move(best_);
    }
    const bool can_search = PackPortfolio::takes(instance_);
    PackPortfolio portfolio(instance_, target_, best_, budget_);
    const bool fits_first = instance_.items.size() > kMostSearchedFirst;
    if (fits_first) fit();
    if (!done() && can_search) portfolio.try_goal(3, 4);
    if (!done() && !fits_first) fit();
    if (!done() && !can_search) pack_around_core(instance_, goal_, best_, budget_);
    if (!done() && can_search) portfolio.improve();
    return std::move(best_);
  }

 private:
  bool done() const { return best_.height <= goal_ || budget_.over(); }

  void fit() {
    PackFit fit(instance_);
    std::vector<PackRank> ranks;
    // So many are not packed twice.
    if (instance_.items.size() > kManyItems) ranks.push_back(PackRank::load_tenth_then_length);
    ranks.insert(ranks.end(), {PackRank::load_then_size, PackRank::size, PackRank::load_then_length,
                               PackRank::area, PackRank::length});
    for (const PackRank rank : ranks) {
      const std::vector<std::int32_t> order = ranked_items(instance_, rank);
      for (const auto hole : {PackFit::Hole::lowest, PackFit::Hole::smallest}) {
        if (done()) return;
        fit.clear();
        bool is_lower = true;
        for (const std::int32_t id : order) {
          fit.place(id, hole);
          budget_.spend(fit.take_work());
          is_lower = fit.height() < best_.height && !budget_.over();
          if (!is_lower) break;
        }
        if (!is_lower) continue;
        best_ = {fit.offsets(), fit.height()};
        budget_.found(best_.height);
      }
    }
  }

  const PackInstance& instance_;
  const std::int64_t target_, goal_;
  PackBudget& budget_;
  PackSolution best_;
};

}  // namespace

Packing pack(std::span<const Lifetime> lifetimes, const PackOptions& options) {
  const std::size_t counted = std::min(lifetimes.size(), kItemsThatCount);
  const std::int64_t work = kWork + kWorkPerItem * static_cast<std::int64_t>(counted);
  PackBudget budget(static_cast<std::int64_t>(static_cast<double>(work) * options.effort),
                    options.seconds, options.enough);
  const PackInstance instance(lifetimes, options.alignment);
  Packing packing;
  packing.offsets.assign(lifetimes.size(), 0);
  packing.load = instance.max_load;
  if (instance.items.empty()) return packing;
  const PackSolution solution = Packer(instance, options.target, budget).run();
  packing.height = solution.height;
  for (std::size_t i = 0; i < instance.items.size(); ++i) {
    packing.offsets[at(instance.items[i].lifetime)] = solution.offsets[i];
  }
  return packing;
}

Packing pack(std::span<const Lifetime> lifetimes, std::int64_t alignment, std::int64_t target,
             int effort) {
  PackOptions options;
  options.alignment = alignment;
  options.target = target;
  options.effort = effort;
  return pack(lifetimes, options);
}

}  // namespace plimsoll::planner
