// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/cancellation.h"
#include "runtime/planner/bound/bound_model.h"
#include "runtime/planner/problem/problem.h"
#include "runtime/planner/problem/schedule.h"
#include "runtime/planner/remedies/remedies.h"
#include "runtime/planner/remedies/slice_residuals.h"
#include "runtime/planner/remedies/stream_constants.h"

namespace plimsoll::planner {

// The plans of one computation that are ever considered, whatever the limit: levels at falling
// targets, each no faster than the one above it, and between two levels portions of memory given
// back to the lower one, no faster than the upper. What a level is depends on the levels above it,
// and a fixed number of targets below, and on no limit, so that a limit is answered from the top
// down: the first plan that fits is the fastest that fits. That makes plans monotone in the limit,
// and the lowest rung the floor, by construction, and the levels far below the answer are never
// made.
//
// With Effort::first a level is the fastest of the eviction simulations, there are fewer of them,
// and the only plans that are looked for by a limit are apart from them.
class Ladder {
 public:
  // `graph` must outlive the ladder; `constant_bytes` are what all constants take that are on the
  // device. They are added to every peak, but for those that a plan streams.
  Ladder(const Graph& graph, const PlanOptions& options, bool fixed_order,
         std::int64_t constant_bytes);

  // From now on all searches give up soon after `stop` says so, and what they give is of no use;
  // null: none does. It must outlive them.
  void stop_by(const Cancellation* stop) { stop_ = stop; }

  // The fastest plan with peak_bytes <= limit; null when there is none. With Effort::first the
  // first plan that fits, made for this limit alone: null says nothing then.
  const Plan* best(std::int64_t limit);
  // Whether it is the one that evicts nothing.
  bool keeps_all(std::int64_t limit);
  // The smallest limit for which best() gives a plan, and that plan.
  std::int64_t floor();
  const Plan& lowest();
  // Of parameters and outputs: no plan needs less.
  std::int64_t callers_bytes() const { return problem_.parameter_bytes + problem_.output_bytes; }
  // Plans that are faster than every one with a smaller arena, fastest first; `most` at most.
  std::vector<std::shared_ptr<const Plan>> pareto(int most);
  // Of `plan`, which best(limit) gave: no plan with its first executions and peak_bytes <= limit is
  // faster (bound.h).
  double lower_bound_seconds(std::int64_t limit, const Plan& plan);
  // No limit below is kept by any plan of this computation in the orders planned in.
  std::int64_t floor_lower_bound();
  // Just these choices, and nothing recomputed (remedies.h).
  Result<Plan> plan_with(const Chooser& choose);

 private:
  struct Rung {
    // Bytes of the arena and of the streamable constants that stay: what its schedule was made for,
    // what it takes by liveness, and what of that is left when results lend their bytes.
    std::int64_t target = 0;
    std::int64_t live = 0;
    std::int64_t reached = 0;
    double seconds = 0;
    IdVector<OpId, int> variants;
    std::shared_ptr<const Problem> problem;  // with choices taken; null: the ladder's own
    Schedule schedule;
    Plan plan;
    bool emitted = false, packed_fully = false;
  };
  // What plans are made from.
  struct Start {
    Problem& problem;
    const PlanOptions& options;  // what it leaves of the tiers
    std::span<const Form> forms;
    std::span<const std::int64_t> unlimited_profile;
    bool own = true;  // the ladder's own problem
  };
  // The problem with some of its residuals on other tiers, slice by slice.
  struct Sliced {
    Problem problem;
    PlanOptions options;
    std::vector<Form> forms;
    std::vector<std::int64_t> unlimited_profile;
  };
  // The same ops in an order that is better when memory is short.
  struct Other {
    Problem problem;
    std::vector<Form> forms;
    std::vector<std::int64_t> unlimited_profile;
  };
  // A problem whose streamable constants all come when they are needed.
  struct Streamed {
    Problem problem;
    std::vector<Form> forms;
    std::vector<std::int64_t> unlimited_profile;
  };
  struct Level {
    Rung rung;
    std::int64_t portions_end = 0;  // the target above
    double least_seconds = 0;       // the level above
    // Each for more memory than the one before; made up to the limits asked for.
    std::vector<Rung> portions;
    int next_portion = 1;
  };

  bool is_stopped() const { return stop_ != nullptr && stop_->is_cancelled(); }
  std::int64_t fixed_bytes() const { return constant_bytes_ + callers_bytes(); }
  // The least limit that a level or a portion may serve. A portion does not serve less than its
  // target, so that those above a limit need not be made.
  std::int64_t reach(const Rung& rung) const { return fixed_bytes() + rung.reached; }
  std::int64_t portion_reach(std::int64_t target) const { return fixed_bytes() + target; }
  Rung make_rung(std::int64_t target, Schedule schedule,
                 std::shared_ptr<const Problem> problem = nullptr) const;
  const Plan& emit(Rung& rung, std::int64_t limit);
  std::int64_t served_from(const Rung& rung) const;
  bool fits(Rung& rung, std::int64_t limit);
  std::vector<OpId> order_of(const Rung& rung) const;
  void add_constants(Plan& plan) const;
  void select_variants(const IdVector<OpId, int>& variants);
  std::int64_t least_arena(const Problem& problem) const;
  Problem relaxed(const Problem& problem) const;
  BoundModel bound_model_of(const Problem& problem) const;
  const BoundModel& bound_model();
  void set_targets();
  const Problem& problem_of(const Rung& rung) const {
    return rung.problem ? *rung.problem : problem_;
  }

  // ladder_rungs.cc: what works at one target
  static void keep_hinted(Problem& problem);
  PlanOptions own_options() const;
  void add_sliced(std::span<const ScanResidual> residuals);
  void find_others();
  std::vector<Start> starts(std::int64_t target);
  // How long one schedule is searched for: until a simulation gets through, by a portfolio of them,
  // or further where that finds one of at most `worth` seconds.
  struct Search {
    enum class Effort : std::uint8_t { first_that_fits, simulate, full };
    Effort effort = Effort::full;
    double worth = std::numeric_limits<double>::infinity();
  };
  std::optional<Schedule> make_schedule(const Problem& problem, std::int64_t target,
                                        double least_seconds, Search how) const;
  std::optional<Schedule> search(const Problem& problem, std::int64_t target, double least_seconds,
                                 Search how) const;
  std::optional<Schedule> search_more(const Problem& problem, std::int64_t target,
                                      double least_seconds, Search how) const;
  std::optional<Schedule> searched(const Problem& problem, std::int64_t target,
                                   const Schedule& start, double scale) const;
  std::optional<Rung> improved(const Rung& rung, double least_seconds);
  std::vector<Rung> make_rungs(std::int64_t target, double least_seconds);
  std::vector<Rung> make_rungs_of(Start& start, std::int64_t target, double least_seconds,
                                  double& fastest);
  std::vector<Rung> rungs_within(Start& start, std::int64_t target, double least_seconds,
                                 double& fastest) const;

  // ladder_constants.cc
  void find_constants();
  Streamed& streamed(const Problem& problem);
  std::optional<double> quick_seconds(const Problem& problem, std::int64_t target);
  Rung settled(Rung rung, std::int64_t target, double least_seconds) const;

  // ladder_overlap.cc
  void overlap(Rung& rung, double pack_effort) const;
  void find_rooms();
  const Plan& roomiest(std::int64_t limit);

  // ladder_first.cc
  const Plan* first_plan(std::int64_t limit);
  std::optional<Rung> first_rung(std::int64_t target);
  std::optional<Rung> first_rung_of(Problem& problem,
                                    std::span<const std::int64_t> unlimited_profile,
                                    std::int64_t target) const;
  bool is_above_floor(std::int64_t target);

  bool try_target(std::int64_t target);
  bool add_lowest();
  bool try_next_target();
  bool extend();
  void make_portions(Level& level, std::int64_t limit);

  const Graph& graph_;
  const PlanOptions options_;
  std::int64_t constant_bytes_;  // of those that are never streamed
  const Cancellation* stop_ = nullptr;
  const bool is_first_;  // Effort::first
  const bool movable_;   // ops may run in another order than the textual one
  const bool may_overlap_;
  const bool searches_late_;  // what becomes a level, not all that is tried
  Problem problem_;
  std::optional<BoundModel> bound_model_;
  std::vector<std::int64_t> unlimited_profile_;
  std::vector<std::int64_t> targets_;  // falling
  std::size_t next_target_ = 0;
  std::int64_t works_ = 0, fails_ = 0;  // the lowest target that works, the next that failed
  int failures_ = 0, halvings_ = 0;
  std::vector<Form> forms_;
  std::vector<ValueId> streamable_;  // constants, of every problem
  std::map<const Problem*, Streamed> streamed_;
  std::vector<ScanResidual> residuals_;
  std::deque<Sliced> sliced_;  // all residuals first, then fewer, the largest
  bool looked_for_others_ = false;
  std::deque<Other> others_;
  std::map<std::int64_t, Rung> firsts_;  // by limit
  std::deque<Rung> below_;               // of the targets below the last level that were tried
  std::optional<Rung> lowest_;           // of all that were made, what reaches least
  std::vector<Level> levels_;            // from the one that evicts nothing downwards
  bool looked_for_rooms_ = false;
  std::deque<Plan> rooms_;  // of the first level in orders that need more memory; the most first
};

}  // namespace plimsoll::planner
