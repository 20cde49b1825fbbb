// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/planner/pack/pack_branch.h"
#include "runtime/planner/pack/pack_eject.h"
#include "runtime/planner/pack/pack_instance.h"
#include "runtime/planner/pack/pack_search.h"

namespace plimsoll::planner {

// Searches for ever lower packings under portfolios of guides, in turn with ejections from the best
// packing so far. What each guide reached decides which comes first the next time.
class PackPortfolio {
 public:
  // A search is worth its while up to this size.
  static bool takes(const PackInstance& instance);

  // `best` is a packing to improve, `goal` a height that is asked for; 0: none. The load is always
  // low enough.
  PackPortfolio(const PackInstance& instance, std::int64_t goal, PackSolution& best,
                PackBudget& budget);

  // A short try at the goal under the first `guides` guides.
  void try_goal(std::size_t guides, std::int64_t failures);
  // Until the goal is reached, is proved to be out of reach, or the budget is over.
  void improve();
  bool done() const { return best_.height <= goal_; }

 private:
  // The same problem, or what is left of it without the buffers so small that they fit into what
  // the others leave.
  struct Level {
    const PackInstance* instance;
    std::unique_ptr<PackInstance> own;
    std::vector<std::int32_t> ids, small;  // in the whole instance
    PackSearch search;
    std::vector<PackGuide> guides;
  };
  struct Choice {
    std::size_t level, guide;
  };

  void add_large_buffers();
  bool attempt(const Choice& choice, std::int64_t height, std::int64_t failures);
  bool attempt_all(std::int64_t height, std::int64_t failures, std::size_t most);
  void sort_choices();
  bool branch(std::int64_t height, std::int64_t failures);
  void branch_to_goal();
  void descend(std::int64_t failures, std::int64_t work);
  void halve(std::int64_t failures);
  void eject(std::int64_t moves);
  void accept(const Level& level, const PackSolution& solution);

  const PackInstance& instance_;
  const std::int64_t goal_;
  const bool is_goal_asked_for_;
  bool is_large_ = false;
  std::int64_t floor_;         // no packing is lower
  std::int64_t searched_ = 0;  // work of searches between ejections
  std::unique_ptr<PackBranch> branch_;
  std::vector<PackBranchGuide> branch_guides_;
  std::int64_t branched_ = 0;  // work of that
  double branch_failures_;     // allowed to each guide the next time
  std::unique_ptr<PackEjection> ejection_;
  std::int64_t ejected_ = 0;  // the best height when it stopped
  PackSolution& best_;
  PackBudget& budget_;
  std::vector<std::unique_ptr<Level>> levels_;
  std::vector<Choice> choices_;
};

}  // namespace plimsoll::planner
