// SPDX-License-Identifier: Apache-2.0
// Constants that come when they are needed (remedies/stream_constants.h), at one target.
#include <algorithm>
#include <utility>

#include "runtime/planner/ladder/ladder.h"
#include "runtime/planner/ladder/order_trials.h"
#include "runtime/planner/remedies/remedies_find.h"

namespace plimsoll::planner {

// What is small against the whole stays: it would save little, and its uploads are steps of their
// own.
void Ladder::find_constants() {
  constexpr std::int64_t kLeastBytes = 1024, kLeastPart = 4096, kLeastPartOfAll = 64;
  if (options_.policy != Policy::default_ || !options_.remedies.swap ||
      options_.without.contains(Technique::constants)) {
    return;
  }
  const Schedule once = each_once(problem_);
  const std::int64_t whole = evaluate(problem_, once).arena_peak + constant_bytes_;
  streamable_ =
      find_streamable(problem_, std::max({kLeastBytes, options_.min_bytes, whole / kLeastPart}));
  std::int64_t bytes = 0;
  for (const ValueId v : streamable_) bytes += problem_.values[v].bytes;
  if (bytes < whole / kLeastPartOfAll) {
    streamable_.clear();
    return;
  }
  problem_.constant_bytes = bytes;
  constant_bytes_ -= bytes;
}

Ladder::Streamed& Ladder::streamed(const Problem& problem) {
  const auto found = streamed_.find(&problem);
  if (found != streamed_.end()) return found->second;
  Streamed made;
  made.problem = stream_constants(problem, streamable_, options_.host);
  if (options_.policy == Policy::default_ && !is_first_) {
    made.forms = find_forms(made.problem, own_options());
  }
  const Schedule once = each_once(made.problem);
  evaluate(made.problem, once, &made.unlimited_profile);
  return streamed_.emplace(&problem, std::move(made)).first->second;
}

// A quick trial with the constants on the device, or streamed.
std::optional<double> Ladder::quick_seconds(const Problem& problem, std::int64_t target) {
  const std::int64_t arena = target - problem.constant_bytes;
  if (arena >= 0) {
    if (const auto seconds = trial_seconds(problem, arena)) return seconds;
  }
  if (streamable_.empty()) return std::nullopt;
  return trial_seconds(streamed(problem).problem, target);
}

// The rung with as many constants on the device as `target` has bytes for; the rung itself where
// it streams none.
Ladder::Rung Ladder::settled(Rung rung, std::int64_t target, double least_seconds) const {
  if (streamable_.empty() || rung.problem == nullptr) return rung;
  std::optional<Settled> more =
      settle_constants(*rung.problem, rung.schedule, streamable_, target, least_seconds);
  if (!more) return rung;
  Rung made = make_rung(rung.target, std::move(more->schedule),
                        std::make_shared<const Problem>(std::move(more->problem)));
  made.variants = std::move(rung.variants);
  return made;
}

}  // namespace plimsoll::planner
