// SPDX-License-Identifier: Apache-2.0
// Plans whose collectives have more to go on beside: in the memory that a plan takes in any case,
// and, where nothing has to give way, in more.
#include <algorithm>
#include <utility>

#include "runtime/planner/ladder/emit.h"
#include "runtime/planner/ladder/ladder.h"
#include "runtime/planner/order/overlap.h"

namespace plimsoll::planner {
namespace {

// Gives the arena more bytes than its packing takes.
void widen_arena(Plan& plan, std::int64_t arena_bytes) {
  const std::int64_t more = arena_bytes - plan.arena_bytes;
  plan.arena_bytes += more;
  plan.peak_bytes += more;
  plan.by_cause.temporaries += more;
}

bool needs_no_more(const Plan& plan, const Plan& than) {
  for (const MemorySpace tier : kTiers) {
    if (plan.tier_bytes[tier] > than.tier_bytes[tier]) return false;
  }
  return plan.arena_bytes <= than.arena_bytes;
}

}  // namespace

// Of the rung, which was just emitted, without constants. The peak stays what it is, also where the
// other order would pack tighter: the limits that a rung serves do not depend on what goes on
// beside what.
void Ladder::overlap(Rung& rung, double pack_effort) const {
  const Problem& problem = problem_of(rung);
  if (!may_overlap_ || !has_overlap(problem)) return;
  // Packing may need more than what lives at once: then with that much less.
  constexpr int kTries = 3;
  std::int64_t arena = rung.plan.arena_bytes;
  for (int i = 0; i < kTries; ++i) {
    const std::optional<Schedule> schedule = overlap_collectives(problem, rung.schedule, arena);
    if (!schedule) return;
    Plan plan = emit_plan(problem, *schedule, rung.plan.arena_bytes, pack_effort);
    if (needs_no_more(plan, rung.plan)) {
      widen_arena(plan, rung.plan.arena_bytes);
      rung.plan = std::move(plan);
      return;
    }
    arena -= std::max<std::int64_t>(plan.arena_bytes - rung.plan.arena_bytes, arena / 32);
  }
}

// In the order of what they save: each is faster than those that need less.
void Ladder::find_rooms() {
  if (std::exchange(looked_for_rooms_, true) || !may_overlap_ || !has_overlap(problem_)) return;
  constexpr int kRooms = 2;
  // Of the time with everything done at once.
  constexpr double kClearly = 0.995;
  const Rung& top = levels_.front().rung;
  select_variants(top.variants);
  const Problem& problem = problem_of(top);
  const auto seconds_within = [&](std::int64_t arena, std::optional<Schedule>& schedule) {
    schedule = overlap_collectives(problem, top.schedule, arena);
    return overlapped_seconds(problem, schedule ? *schedule : top.schedule);
  };
  std::optional<Schedule> schedule;
  const std::int64_t least = top.plan.arena_bytes;
  double seconds = seconds_within(least, schedule);
  if (seconds_within(kUnlimited, schedule) > kClearly * seconds || !schedule) return;
  const std::int64_t most = evaluate(problem, *schedule).arena_peak;
  for (int i = 1; i <= kRooms && most > least; ++i) {
    const std::int64_t arena = i == kRooms ? kUnlimited : least + (most - least) / kRooms * i;
    const double faster = seconds_within(arena, schedule);
    if (!schedule || faster > kClearly * seconds) continue;
    Plan plan = emit_plan(problem, *schedule, 0);
    // Where it packs tighter, too: limits below that the first level does not serve.
    if (plan.arena_bytes < least) widen_arena(plan, least);
    if (!rooms_.empty() && plan.arena_bytes < rooms_.front().arena_bytes) continue;
    add_constants(plan);
    plan.unlimited_seconds = plan.lower_bound_seconds = top.seconds;
    rooms_.push_front(std::move(plan));
    seconds = faster;
  }
}

// Where the first level fits: its plan, or one of it in more memory, as far as there is some.
const Plan& Ladder::roomiest(std::int64_t limit) {
  find_rooms();
  for (const Plan& plan : rooms_) {
    if (plan.peak_bytes <= limit) return plan;
  }
  return levels_.front().rung.plan;
}

}  // namespace plimsoll::planner
