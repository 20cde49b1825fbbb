// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/pack/pack_portfolio.h"

#include <algorithm>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/planner/pack/pack_fit.h"

namespace plimsoll::planner {
namespace {

constexpr std::size_t kMostSearched = 8'000;
constexpr std::int64_t kMostEntries = 8'000'000;  // items times sections they live in
// Buffers below a part of the load are left out and filled in later, as long as all of them
// together need no more than this part.
constexpr double kSmallTogether = 0.003;
constexpr std::size_t kManySearched = 1'000;
constexpr std::ptrdiff_t kFirstForMany = 12,
                         kLastForMany = 18;  // guides that only they take, first
// Moves of an ejection per failure allowed to the search next to it; of few buffers and many.
constexpr std::int64_t kMovesForFew = 300, kMovesForMany = 10'000;
// Of few: a search is likelier to get there.
constexpr std::int64_t kWorkBeforeEjection = 150'000'000;
// Of many: how much more work goes to ejections than to searches.
constexpr std::int64_t kEjectedPerSearched = 20;
// Failures allowed to each guide of PackBranch in its first round, and how they grow. What it finds
// it mostly finds early under one of them, hence many short rounds.
constexpr double kBranchFailures = 50, kBranchGrowth = 1.5;
// How much more work goes to it than to everything else.
constexpr std::int64_t kBranchedPerOther = 3;
constexpr std::size_t kFewItems = 250;  // so few that leaving some out gains nothing

// Training steps are nests with long lives below short ones: the fullest sections first, then the
// longest. Where values are recomputed, what lives on to the end (or, seen from the other side,
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
      guide(First::lowest_then_tightest, Key::size, Key::end, Key::load),
      guide(First::lowest_then_tightest, Key::end, Key::size, Key::area),
      guide(First::lowest_then_tightest, Key::end, Key::begin, Key::area),
      guide(First::lowest_then_tightest, Key::length, Key::sections, Key::area),
      guide(First::lowest, Key::sections, Key::begin, Key::load),
      guide(First::lowest_then_tightest, Key::sections, Key::begin, Key::length),
      guide(First::rank, Key::area, Key::load, Key::length),
      guide(First::lowest_then_tightest, Key::end, Key::load, Key::length),
      guide(First::lowest, Key::load, Key::begin, Key::length),
  };
}

// Those that find most hard packings alone first, each of them some that no other does.
std::vector<PackBranchGuide> all_branch_guides() {
  using Section = PackBranchGuide::Section;
  using Item = PackBranchGuide::Item;
  return {
      {Section::firsts, Item::sections, {}}, {Section::firsts, Item::lowest_then_length, {}},
      {Section::firsts, Item::length, {}},   {Section::floor, Item::area, {}},
      {Section::floor, Item::sections, {}},
  };
}

}  // namespace

bool PackPortfolio::takes(const PackInstance& instance) {
  if (instance.items.size() > kMostSearched) return false;
  std::int64_t entries = 0;
  for (const auto& item : instance.items) entries += item.end - item.begin;
  return entries <= kMostEntries;
}

PackPortfolio::PackPortfolio(const PackInstance& instance, std::int64_t goal, PackSolution& best,
                             PackBudget& budget)
    : instance_(instance),
      goal_(std::max(goal, instance.max_load)),
      is_goal_asked_for_(goal > 0),
      floor_(instance.max_load),
      branch_guides_(all_branch_guides()),
      branch_failures_(kBranchFailures),
      best_(best),
      budget_(budget) {
  levels_.push_back(std::unique_ptr<Level>(
      new Level{&instance_, nullptr, {}, {}, PackSearch(instance_), all_guides()}));
  const std::size_t guides = levels_[0]->guides.size();
  is_large_ = instance.items.size() > kManySearched;
  for (std::size_t g = 0; g < guides; ++g) {
    const bool is_for_many =
        std::cmp_greater_equal(g, kFirstForMany) && std::cmp_less(g, kLastForMany);
    if (is_large_ || !is_for_many) choices_.push_back({0, g});
  }
}

void PackPortfolio::add_large_buffers() {
  if (instance_.items.size() <= kFewItems) return;
  for (const double part : {3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5}) {
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
    const auto available =
        static_cast<std::int64_t>(kSmallTogether * static_cast<double>(instance_.max_load));
    if (PackInstance(small_lives, 1).max_load > available) continue;
    auto own = std::make_unique<PackInstance>(large_lives, instance_.alignment);
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
    budget_.found(best_.height);
    return;
  }
  PackFit fit(instance_);
  for (std::size_t k = 0; k < level.ids.size(); ++k) {
    fit.place_at(level.ids[k], solution.offsets[k]);
  }
  for (const std::int32_t id : level.small) fit.place(id, PackFit::Hole::smallest);
  budget_.spend(fit.take_work());
  if (fit.height() < best_.height) best_ = {fit.offsets(), fit.height()};
  budget_.found(best_.height);
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

bool PackPortfolio::attempt_all(std::int64_t height, std::int64_t failures, std::size_t most) {
  for (std::size_t c = 0; c < std::min(most, choices_.size()); ++c) {
    if (budget_.over() || floor_ > height) return false;
    const Choice choice = choices_[c];
    if (!attempt(choice, height, failures)) continue;
    std::rotate(choices_.begin(), choices_.begin() + static_cast<std::ptrdiff_t>(c),
                choices_.begin() + static_cast<std::ptrdiff_t>(c) + 1);
    return true;
  }
  sort_choices();
  return false;
}

// Those that came furthest first.
void PackPortfolio::sort_choices() {
  std::stable_sort(choices_.begin(), choices_.end(), [&](const Choice& a, const Choice& b) {
    return levels_[a.level]->guides[a.guide].depth > levels_[b.level]->guides[b.guide].depth;
  });
}

void PackPortfolio::try_goal(std::size_t guides, std::int64_t failures) {
  attempt_all(goal_, failures, guides);
}

bool PackPortfolio::branch(std::int64_t height, std::int64_t failures) {
  if (!branch_) branch_ = std::make_unique<PackBranch>(instance_);
  for (PackBranchGuide& guide : branch_guides_) {
    if (budget_.over() || floor_ > height) return false;
    const auto solution = branch_->run(guide, height, failures, budget_);
    if (branch_->exhausted()) floor_ = std::max(floor_, height + 1);
    if (!solution) continue;
    accept(*levels_[0], *solution);
    return true;
  }
  return false;
}

// Until it has had its share of the work. Where no height is asked for, the load may be out of
// reach, and every lower packing is worth something: then the work belongs to what lowers.
void PackPortfolio::branch_to_goal() {
  if (!is_goal_asked_for_ || is_large_) return;
  while (!done() && !budget_.over() && floor_ <= goal_) {
    const std::int64_t before = budget_.spent();
    if (branched_ > (before - branched_) * kBranchedPerOther) return;
    branch(goal_, static_cast<std::int64_t>(branch_failures_));
    branch_failures_ *= kBranchGrowth;
    branched_ += budget_.spent() - before;
  }
}

void PackPortfolio::improve() {
  const std::size_t all = choices_.size();
  for (const std::int64_t failures : {8, 32, 128}) {
    // A search of many items takes long, and rarely gets there at once.
    if (!done() && !is_large_ && floor_ <= goal_) try_goal(all, failures);
    branch_to_goal();
  }
  if (!done()) add_large_buffers();
  // Many buffers are mostly those of steps that recompute values.
  if (is_large_) {
    std::rotate(choices_.begin(), choices_.begin() + kFirstForMany, choices_.end());
  }
  for (std::int64_t failures = 8; !done() && !budget_.over(); failures *= 3) {
    if (failures > 8 && floor_ <= goal_) try_goal(all, failures);
    branch_to_goal();
    if (is_large_) {
      eject(failures * kMovesForMany);
      const std::int64_t before = budget_.spent();
      descend(failures, before / kEjectedPerSearched - searched_);
      searched_ += budget_.spent() - before;
    } else {
      halve(failures);
      if (budget_.spent() > kWorkBeforeEjection) eject(failures * kMovesForFew);
    }
    if (best_.height <= floor_) return;
  }
}

// Every guide goes on as long as it lowers the packing by a part of what is left.
void PackPortfolio::descend(std::int64_t failures, std::int64_t work) {
  const std::int64_t end = budget_.spent() + work;
  for (const Choice& choice : choices_) {
    for (;;) {
      const std::int64_t lower = std::max(goal_, floor_);
      if (done() || best_.height <= lower || budget_.over() || budget_.spent() > end) return;
      const std::int64_t before = best_.height;
      const std::int64_t step = std::max<std::int64_t>((before - lower) / (failures - 2), 1);
      if (!attempt(choice, before - step, failures) || best_.height >= before) break;
    }
  }
  sort_choices();
}

// A local search that goes on from call to call, or from a lower packing that was found since.
void PackPortfolio::eject(std::int64_t moves) {
  const Level& level = *levels_[choices_[0].level];
  const std::int64_t lower = std::max(goal_, floor_);
  if (done() || best_.height <= lower || budget_.over()) return;
  if (!ejection_ || ejected_ > best_.height) {
    PackSolution start = best_;
    for (std::size_t k = 0; k < level.ids.size(); ++k) {
      start.offsets[k] = best_.offsets[at(level.ids[k])];
    }
    start.offsets.resize(level.instance->items.size());
    ejection_ = std::make_unique<PackEjection>(*level.instance, start);
  }
  ejection_->run(lower, moves, budget_);
  if (ejection_->best().height < best_.height) accept(level, ejection_->best());
  ejected_ = best_.height;
}

// Halves what lies between the least height that may do and the best: any guide may get there.
//
// A bisection, but for one thing: that no guide reaches a height within `failures` is no proof that
// there is no packing of it. Only an exhausted search is (`floor_` rises then), so that later
// rounds, with more failures allowed, ask for the same heights again.
void PackPortfolio::halve(std::int64_t failures) {
  const std::int64_t least_step = std::max<std::int64_t>(instance_.max_load / 1000, 1);
  std::int64_t lower = std::max(goal_, floor_);
  std::size_t most = choices_.size();
  while (!done() && lower < best_.height && !budget_.over()) {
    const std::int64_t height = lower + (best_.height - 1 - lower) / 2;
    const std::int64_t before = best_.height;
    if (attempt_all(height, failures, most) && best_.height < before) continue;
    lower = height + 1;
    most = std::max<std::size_t>(choices_.size() / 2, 4);
    if (best_.height - lower < least_step) break;
  }
}

}  // namespace plimsoll::planner
