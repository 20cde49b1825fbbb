// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/pack.h"

#include <algorithm>
#include <numeric>

#include "runtime/planner/pack_fit.h"
#include "runtime/planner/pack_instance.h"
#include "runtime/planner/pack_portfolio.h"

namespace plimsoll::planner {
namespace {

constexpr std::int64_t kWorkPerEffort = 20'000'000;

enum class Rank { load, size, area, length };

std::vector<std::int32_t> ranked(const PackInstance& instance, Rank rank) {
  const std::size_t count = instance.items.size();
  std::vector<double> load(rank == Rank::load ? count : 0);
  if (rank == Rank::load) {
    // Range maxima by doubling steps: one table row at a time would do, but rows are small.
    std::vector<std::vector<std::int64_t>> most{instance.load};
    for (std::size_t step = 1; step * 2 <= instance.load.size(); step *= 2) {
      const auto& row = most.back();
      std::vector<std::int64_t> next(row.size() - step);
      for (std::size_t s = 0; s < next.size(); ++s) next[s] = std::max(row[s], row[s + step]);
      most.push_back(std::move(next));
    }
    for (std::size_t i = 0; i < count; ++i) {
      const auto begin = static_cast<std::size_t>(instance.items[i].begin);
      const auto end = static_cast<std::size_t>(instance.items[i].end);
      std::size_t level = 0;
      while ((std::size_t{2} << level) <= end - begin) ++level;
      load[i] = static_cast<double>(
          std::max(most[level][begin], most[level][end - (std::size_t{1} << level)]));
    }
  }
  std::vector<std::int32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](std::int32_t i) -> std::pair<double, double> {
    const auto& item = instance.item(i);
    const auto size = static_cast<double>(item.size), length = static_cast<double>(item.length);
    switch (rank) {
      case Rank::load:
        return {load[static_cast<std::size_t>(i)], length};
      case Rank::size:
        return {size, length};
      case Rank::area:
        return {size * length, size};
      case Rank::length:
        return {length, size};
    }
    return {};
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return key(a) > key(b); });
  return order;
}

class Packer {
 public:
  Packer(const PackInstance& instance, std::int64_t goal, PackBudget& budget)
      : instance_(instance), goal_(goal), budget_(budget) {}

  PackSolution run() {
    for (const auto hole : {PackFit::Hole::smallest, PackFit::Hole::lowest}) {
      PackSolution swept = pack_sweep(instance_, hole);
      budget_.spend(static_cast<std::int64_t>(instance_.items.size()) * 300);
      if (best_.offsets.empty() || swept.height < best_.height) best_ = std::move(swept);
      if (done()) return std::move(best_);
    }
    const bool can_search = PackPortfolio::takes(instance_);
    PackPortfolio portfolio(instance_, goal_, best_, budget_);
    if (can_search) portfolio.try_goal(3, 4);
    if (!done()) fit();
    if (!done() && can_search) portfolio.improve();
    return std::move(best_);
  }

 private:
  bool done() const { return best_.height <= goal_ || budget_.over(); }

  void fit() {
    PackFit fit(instance_);
    for (const Rank rank : {Rank::load, Rank::size, Rank::area, Rank::length}) {
      const std::vector<std::int32_t> order = ranked(instance_, rank);
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
        if (is_lower) best_ = {fit.offsets(), fit.height()};
      }
    }
  }

  const PackInstance& instance_;
  const std::int64_t goal_;
  PackBudget& budget_;
  PackSolution best_;
};

}  // namespace

Packing pack(std::span<const Lifetime> lifetimes, const PackOptions& options) {
  const PackInstance instance(lifetimes, options.alignment);
  Packing packing;
  packing.offsets.assign(lifetimes.size(), 0);
  packing.load = instance.max_load;
  if (instance.items.empty()) return packing;
  PackBudget budget(kWorkPerEffort * options.effort, options.seconds);
  const std::int64_t goal = std::max(instance.max_load, options.target);
  const PackSolution solution = Packer(instance, goal, budget).run();
  packing.height = solution.height;
  for (std::size_t i = 0; i < instance.items.size(); ++i) {
    packing.offsets[static_cast<std::size_t>(instance.items[i].lifetime)] = solution.offsets[i];
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
