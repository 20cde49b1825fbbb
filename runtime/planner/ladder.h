// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/planner/evaluate.h"
#include "runtime/planner/problem.h"

namespace plimsoll::planner {

// The plans of one computation that are ever considered, whatever the limit: what a limit gets is
// the fastest of those that fit it. That makes plans monotone in the limit, and the lowest rung the
// floor, by construction. The rungs below a limit are made when first asked for.
class Ladder {
 public:
  // `graph` must outlive the ladder; `constant_bytes` are added to every peak.
  Ladder(const Graph& graph, const PlanOptions& options, bool fixed_order,
         std::int64_t constant_bytes);

  // The fastest plan with peak_bytes <= limit; null when there is none.
  const Plan* best(std::int64_t limit);
  // The smallest limit for which best() gives a plan, and that plan.
  std::int64_t floor();
  const Plan& lowest();
  // Plans that are faster than every one with a smaller arena, fastest first; `most` at most.
  std::vector<std::shared_ptr<const Plan>> pareto(int most);

 private:
  struct Rung {
    std::int64_t target = 0;  // arena bytes that its schedule was made for
    std::int64_t live = 0;    // arena bytes by liveness
    double seconds = 0;
    std::vector<int> variants;
    Schedule schedule;
    Plan plan;
    bool emitted = false, packed_fully = false;
  };

  std::int64_t fixed_bytes() const {
    return constant_bytes_ + problem_.parameter_bytes + problem_.output_bytes;
  }
  std::int64_t reach(std::int64_t target, std::int64_t live) const;
  std::int64_t reach(const Rung& rung) const { return reach(rung.target, rung.live); }
  void add_rung(std::int64_t target, Schedule schedule);
  const Plan& emit(Rung& rung, std::int64_t limit);
  void select_variants(const std::vector<int>& variants);
  void choose_variants(std::int64_t target, bool leave_room);
  std::int64_t least_arena();
  void set_targets();
  std::optional<Schedule> make_schedule(std::int64_t target) const;
  bool try_target(std::int64_t target);
  bool try_step(std::size_t step);
  void find_bottom();
  void extend(std::int64_t limit);

  const Graph& graph_;
  const PlanOptions options_;
  const std::int64_t constant_bytes_;
  Problem problem_;
  std::vector<std::int64_t> unlimited_profile_;
  std::vector<std::int64_t> targets_;  // rising
  std::vector<char> tried_;            // per target: 0 not yet, 1 failed, 2 gave a rung
  bool found_bottom_ = false;
  std::vector<Rung> rungs_;
};

}  // namespace plimsoll::planner
