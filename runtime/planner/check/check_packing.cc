// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/check/check_packing.h"

#include <fmt/core.h>
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::planner {

// Sweeps over the steps with the live buffers sorted by offset: neighbours may not touch.
//
// Looking at neighbours is enough. The live buffers do not overlap before the step (by induction),
// so their ranges stand in a row; one that begins at or above the new offset can only be reached
// through the next one above, and of those that begin below, the nearest ends last. With n buffers
// that is O(n log n), where comparing all pairs would be O(n^2).
Result<PlacedBytes> check_overlaps(const Plan& plan, Placement placement) {
  const StepId steps_end = std::max(plan.steps.end_id(), StepId(1));
  std::vector<std::pair<StepId, BufferId>> starts, ends;
  PlacedBytes placed;
  for (const BufferId id : plan.buffers.ids()) {
    const Buffer& b = plan.buffers[id];
    if (b.placement != placement) continue;
    if (b.first_step > b.last_step || b.first_step < 0 || b.last_step >= steps_end) {
      return internal_error(fmt::format("buffer {} has a bad life", id.value()));
    }
    if (b.bytes == 0) continue;
    placed.end = std::max(placed.end, b.offset + b.bytes);
    starts.emplace_back(b.first_step, id);
    ends.emplace_back(b.last_step, id);
  }
  std::sort(starts.begin(), starts.end());
  std::sort(ends.begin(), ends.end());
  std::map<std::int64_t, std::int64_t> live;  // offset -> end
  std::int64_t bytes = 0;
  std::size_t next_end = 0;
  for (const auto& [step, id] : starts) {
    while (next_end < ends.size() && ends[next_end].first < step) {
      const Buffer& b = plan.buffers[ends[next_end++].second];
      live.erase(b.offset);
      bytes -= b.bytes;
    }
    const Buffer& b = plan.buffers[id];
    const auto above = live.lower_bound(b.offset);
    if ((above != live.end() && above->first < b.offset + b.bytes) ||
        (above != live.begin() && std::prev(above)->second > b.offset)) {
      return internal_error(
          fmt::format("buffer {} overlaps a live one at step {}", id.value(), step.value()));
    }
    live.emplace(b.offset, b.offset + b.bytes);
    bytes += b.bytes;
    placed.live = std::max(placed.live, bytes);
  }
  return placed;
}

}  // namespace plimsoll::planner
