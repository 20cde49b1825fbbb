// SPDX-License-Identifier: Apache-2.0
// The first plan that fits, for one limit.
#include <algorithm>
#include <utility>

#include "runtime/base/alignment.h"
#include "runtime/planner/ladder/ladder.h"
#include "runtime/planner/ladder/order_trials.h"
#include "runtime/planner/problem/callee_bytes.h"

namespace plimsoll::planner {

// A plan that fits near the floor is not taken: the floor is what full effort reaches, and a limit
// below it is refused whatever the effort. So the simulations must get through with a thirtieth
// less as well.
//
// At the bytes that the limit leaves to the arena, and where its packing needs more than that, at
// as many bytes less.
//
// Example: a limit leaves 100 MB. What the simulations bring within 100 MB by liveness, say 98,
// packs into 104: the next schedule is made for 94 MB, and packs into 99.
const Plan* Ladder::first_plan(std::int64_t limit) {
  if (const auto known = firsts_.find(limit); known != firsts_.end()) return &known->second.plan;
  constexpr int kTries = 4;
  const auto keep = [&](Rung rung) {
    return &firsts_.insert_or_assign(limit, std::move(rung)).first->second.plan;
  };
  // Packed for this limit, whatever was asked for before.
  Rung top = levels_.front().rung;
  top.emitted = false;
  if (fits(top, limit)) return keep(std::move(top));
  if (options_.policy == Policy::none) return nullptr;
  std::int64_t target = limit - fixed_bytes();
  for (int i = 0; i < kTries && target > 0; ++i) {
    target = target / kBufferAlignment * kBufferAlignment;
    std::optional<Rung> rung = first_rung(target);
    if (!rung) return nullptr;
    if (fits(*rung, limit)) {
      if (!is_above_floor(target)) return nullptr;
      return keep(std::move(*rung));
    }
    const std::int64_t above = std::max<std::int64_t>(rung->plan.peak_bytes - limit, 0);
    target = std::min(target, rung->live) - std::max<std::int64_t>(above, kBufferAlignment);
  }
  return nullptr;
}

bool Ladder::is_above_floor(std::int64_t target) {
  constexpr std::int64_t kMargin = 32;
  const std::int64_t less = target - target / kMargin;
  if (graph_.variants.empty() && quick_seconds(problem_, less)) return true;
  return first_rung(less).has_value();
}

// With the streamable constants on the device where that works, else streamed.
std::optional<Ladder::Rung> Ladder::first_rung(std::int64_t target) {
  std::optional<Rung> rung = first_rung_of(problem_, unlimited_profile_, target);
  if (rung || streamable_.empty()) return rung;
  Streamed& changed = streamed(problem_);
  rung = first_rung_of(changed.problem, changed.unlimited_profile, target);
  if (rung) rung = settled(std::move(*rung), target, 0);
  return rung;
}

// The fastest of those that give the callees different bytes.
std::optional<Ladder::Rung> Ladder::first_rung_of(Problem& problem,
                                                  std::span<const std::int64_t> unlimited_profile,
                                                  std::int64_t target) const {
  const std::int64_t arena = target - problem.constant_bytes;
  if (arena < 0) return std::nullopt;
  std::optional<Rung> best;
  for (const CalleeBytes& given : callee_bytes(graph_)) {
    choose_callees(problem, unlimited_profile, arena, given);
    std::optional<Schedule> schedule = make_schedule(problem, arena, 0, {});
    if (!schedule) continue;
    use_available_bytes(problem, *schedule, arena);
    const bool is_own = &problem == &problem_;
    Rung rung = make_rung(target, std::move(*schedule),
                          is_own ? nullptr : std::make_shared<const Problem>(problem));
    if (!best || rung.seconds < best->seconds) best = std::move(rung);
  }
  return best;
}

}  // namespace plimsoll::planner
