// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/pack_portfolio.h"

#include <algorithm>
#include <numeric>

#include "runtime/planner/pack_fit.h"

namespace plimsoll::planner {
namespace {

constexpr std::size_t kMostItems = 8'000;
constexpr std::int64_t kMostEntries = 8'000'000;  // items times sections they live in
// Buffers below a part of the load are left out and filled in later, as long as all of them
// together need no more than this part.
constexpr double kSmallTogether = 0.003;
constexpr std::size_t kFewItems = 250;  // so few that leaving some out gains nothing

// Training steps are nests with long lives below short ones: the fullest sections first, then the
// longest. Where values are made again, what lives on to the end (or, seen from the other side,
// from the start) goes below.
std::vector<PackGuide> all_guides() {
  using First = PackGuide::First;
  using Key = PackGuide::Key;
  const auto guide = [](First first, Key a, Key b, Key c) {
    return PackGuide{first, {a, b, c}, {}, 0};
  };
  return {
      guide(First::lowest, Key::load, Key::length, Key::area),
      guide(First::rank, Key::load, Key::length, Key::area),
      guide(First::lowest, Key::load, Key::end, Key::area),
      guide(First::lowest_then_tightest, Key::length, Key::load, Key::area),
      guide(First::lowest, Key::area, Key::load, Key::length),
      guide(First::lowest_then_tightest, Key::load, Key::length, Key::area),
      guide(First::lowest, Key::size, Key::end, Key::load),
      guide(First::lowest, Key::size, Key::begin, Key::load),
      guide(First::lowest, Key::load, Key::begin, Key::area),
      guide(First::lowest, Key::load, Key::end, Key::length),
      guide(First::lowest_then_tightest, Key::area, Key::sections, Key::load),
      guide(First::lowest_then_tightest, Key::load, Key::sections, Key::area),
      guide(First::rank, Key::area, Key::load, Key::length),
      guide(First::lowest_then_tightest, Key::end, Key::load, Key::length),
      guide(First::lowest, Key::load, Key::begin, Key::length),
  };
}

}  // namespace

bool PackPortfolio::takes(const PackInstance& instance) {
  if (instance.items.size() > kMostItems) return false;
  std::int64_t entries = 0;
  for (const auto& item : instance.items) entries += item.end - item.begin;
  return entries <= kMostEntries;
}

PackPortfolio::PackPortfolio(const PackInstance& instance, std::int64_t goal, PackSolution& best,
                             PackBudget& budget)
    : instance_(instance),
      goal_(std::max(goal, instance.max_load)),
      floor_(instance.max_load),
      best_(best),
      budget_(budget) {
  levels_.push_back(std::unique_ptr<Level>(
      new Level{&instance_, nullptr, {}, {}, PackSearch(instance_), all_guides()}));
  const std::size_t guides = levels_[0]->guides.size();
  for (std::size_t g = 0; g < guides; ++g) choices_.push_back({0, g});
}

void PackPortfolio::add_large_buffers() {
  if (instance_.items.size() <= kFewItems) return;
  for (const double part : {1e-3, 3e-4, 1e-4, 3e-5, 1e-5}) {
    const auto least = static_cast<std::int64_t>(part * static_cast<double>(instance_.max_load));
    std::vector<std::int32_t> ids, small;
    std::vector<Lifetime> large_lives, small_lives;
    for (std::size_t i = 0; i < instance_.items.size(); ++i) {
      const auto& item = instance_.items[i];
      const bool is_small = item.size < least;
      (is_small ? small : ids).push_back(static_cast<std::int32_t>(i));
      (is_small ? small_lives : large_lives).push_back({item.begin, item.end, item.size});
    }
    if (small.size() * 20 < instance_.items.size()) return;
    const auto room =
        static_cast<std::int64_t>(kSmallTogether * static_cast<double>(instance_.max_load));
    if (PackInstance(small_lives, 1).max_load > room) continue;
    auto own = std::make_unique<PackInstance>(large_lives, 1);
    for (std::size_t k = 0; k < ids.size(); ++k) {
      own->items[k].length = instance_.item(ids[k]).length;
    }
    std::sort(small.begin(), small.end(), [&](std::int32_t a, std::int32_t b) {
      const auto &x = instance_.item(a), &y = instance_.item(b);
      return x.size != y.size ? x.size > y.size : a < b;
    });
    const PackInstance* pointer = own.get();
    levels_.push_back(
        std::unique_ptr<Level>(new Level{pointer, std::move(own), std::move(ids), std::move(small),
                                         PackSearch(*pointer), all_guides()}));
    // Fewer decisions for nearly the same: these are tried in place of the others.
    for (Choice& choice : choices_) choice.level = 1;
    return;
  }
}

void PackPortfolio::accept(const Level& level, const PackSolution& solution) {
  if (!level.own) {
    if (solution.height < best_.height) best_ = solution;
    return;
  }
  PackFit fit(instance_);
  for (std::size_t k = 0; k < level.ids.size(); ++k) {
    fit.place_at(level.ids[k], solution.offsets[k]);
  }
  for (const std::int32_t id : level.small) fit.place(id, PackFit::Hole::smallest);
  budget_.spend(fit.take_work());
  if (fit.height() < best_.height) best_ = {fit.offsets(), fit.height()};
}

bool PackPortfolio::attempt(const Choice& choice, std::int64_t height, std::int64_t failures) {
  Level& level = *levels_[choice.level];
  const auto solution = level.search.run(level.guides[choice.guide], height, failures, budget_);
  if (solution) {
    accept(level, *solution);
    return true;
  }
  // Without some buffers there is no packing of this height either.
  if (level.search.exhausted()) floor_ = std::max(floor_, height + 1);
  return false;
}

// The guides that came furthest go first, and only the `most` best of them.
bool PackPortfolio::attempt_all(std::int64_t height, std::int64_t failures, std::size_t most) {
  for (std::size_t c = 0; c < std::min(most, choices_.size()); ++c) {
    if (budget_.over() || floor_ > height) return false;
    const Choice choice = choices_[c];
    if (!attempt(choice, height, failures)) continue;
    std::rotate(choices_.begin(), choices_.begin() + static_cast<std::ptrdiff_t>(c),
                choices_.begin() + static_cast<std::ptrdiff_t>(c) + 1);
    return true;
  }
  std::stable_sort(choices_.begin(), choices_.end(), [&](const Choice& a, const Choice& b) {
    return levels_[a.level]->guides[a.guide].depth > levels_[b.level]->guides[b.guide].depth;
  });
  return false;
}

void PackPortfolio::try_goal(std::size_t guides, std::int64_t failures) {
  attempt_all(goal_, failures, guides);
}

void PackPortfolio::improve() {
  const std::size_t all = choices_.size();
  for (const std::int64_t failures : {8, 32, 128}) {
    if (instance_.items.size() > 1000 && failures > 8) break;
    if (!done() && floor_ <= goal_) try_goal(all, failures);
  }
  if (!done()) add_large_buffers();
  const std::int64_t least_step = std::max<std::int64_t>(instance_.max_load / 1000, 1);
  for (std::int64_t failures = 8; !done() && floor_ <= best_.height - 1; failures *= 3) {
    if (budget_.over()) return;
    if (failures > 8) try_goal(all, failures);
    std::int64_t lower = std::max(goal_, floor_);
    std::size_t most = all;
    while (!done() && lower < best_.height && !budget_.over()) {
      const std::int64_t height = lower + (best_.height - 1 - lower) / 2;
      const std::int64_t before = best_.height;
      if (!attempt_all(height, failures, most) || best_.height >= before) {
        lower = height + 1;
        most = std::max<std::size_t>(all / 2, 4);
        if (best_.height - lower < least_step) break;
      }
    }
  }
}

}  // namespace plimsoll::planner
