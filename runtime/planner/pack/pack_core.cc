// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/pack/pack_core.h"

#include <optional>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/planner/pack/pack_fit.h"
#include "runtime/planner/pack/pack_rank.h"
#include "runtime/planner/pack/pack_search.h"

namespace plimsoll::planner {
namespace {

constexpr std::size_t kMostItems = 2'500;
constexpr std::int64_t kFailures = 20;

std::vector<PackGuide> core_guides() {
  using First = PackGuide::First;
  using Key = PackGuide::Key;
  return {PackGuide{First::lowest, {Key::size, Key::begin, Key::load}, {}, 0},
          PackGuide{First::lowest, {Key::load, Key::length, Key::area}, {}, 0},
          PackGuide{First::lowest, {Key::load, Key::end, Key::area}, {}, 0}};
}

}  // namespace

// What is hard about a packing lies at its fullest time steps; everything else fits into the holes.
// The core is what lives in sections of at least `share` of the greatest load. It is packed by
// search, as exactly as can be, and the rest is placed around it by lowest fit. How large a core a
// search can take is not known beforehand, hence several shares.
void pack_around_core(const PackInstance& instance, std::int64_t goal, PackSolution& best,
                      PackBudget& budget) {
  const std::vector<std::int64_t> fullest = fullest_sections(instance);
  PackFit fit(instance);
  for (const double share : {0.9, 0.95, 0.8, 0.98}) {
    const double least = share * static_cast<double>(instance.max_load);
    std::vector<Lifetime> lives;
    std::vector<std::int32_t> core;
    std::vector<char> is_core(instance.items.size(), 0);
    for (std::size_t i = 0; i < instance.items.size(); ++i) {
      if (static_cast<double>(fullest[i]) < least) continue;
      const auto& item = instance.items[i];
      is_core[i] = 1;
      core.push_back(static_cast<std::int32_t>(i));
      lives.push_back({item.begin, item.end, item.size});
    }
    if (core.size() > kMostItems) continue;
    const PackInstance problem(lives, 1);
    PackSearch search(problem);
    std::optional<PackSolution> packed;
    for (PackGuide& guide : core_guides()) {
      packed = search.run(guide, goal, kFailures, budget);
      if (packed || budget.over()) break;
    }
    if (!packed) continue;
    for (const PackRank rank :
         {PackRank::size, PackRank::load_then_size, PackRank::load_then_length}) {
      if (budget.over()) return;
      fit.clear();
      for (std::size_t k = 0; k < core.size(); ++k) fit.place_at(core[k], packed->offsets[k]);
      bool is_lower = true;
      for (const std::int32_t id : ranked_items(instance, rank)) {
        if (is_core[at(id)]) continue;
        fit.place(id, PackFit::Hole::lowest);
        budget.spend(fit.take_work());
        is_lower = fit.height() < best.height && !budget.over();
        if (!is_lower) break;
      }
      if (is_lower) best = {fit.offsets(), fit.height()};
      budget.found(best.height);
      if (best.height <= goal) return;
    }
  }
}

}  // namespace plimsoll::planner
