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
  const auto block_of = [&](const Buffer& b) { return placement == Placement::lent ? b.index : 0; };
  std::map<std::pair<int, std::int64_t>, std::int64_t> live;  // block and offset -> end
  std::int64_t bytes = 0;
  std::size_t next_end = 0;
  for (const auto& [step, id] : starts) {
    while (next_end < ends.size() && ends[next_end].first < step) {
      const Buffer& b = plan.buffers[ends[next_end++].second];
      live.erase({block_of(b), b.offset});
      bytes -= b.bytes;
    }
    const Buffer& b = plan.buffers[id];
    const int block = block_of(b);
    const auto in_block = [&](const auto& it) { return it->first.first == block; };
    const auto above = live.lower_bound({block, b.offset});
    if ((above != live.end() && in_block(above) && above->first.second < b.offset + b.bytes) ||
        (above != live.begin() && in_block(std::prev(above)) &&
         std::prev(above)->second > b.offset)) {
      return internal_error(
          fmt::format("buffer {} overlaps a live one at step {}", id.value(), step.value()));
    }
    live.emplace(std::pair(block, b.offset), b.offset + b.bytes);
    bytes += b.bytes;
    placed.live = std::max(placed.live, bytes);
  }
  return placed;
}

Status check_lent(const Plan& plan) {
  auto placed = check_overlaps(plan, Placement::lent);
  if (!placed.ok()) return placed.status();
  std::map<int, StepId> made;  // by leaf
  for (const Buffer& b : plan.buffers) {
    if (b.placement == Placement::output && !b.host) made.emplace(b.index, b.first_step);
  }
  for (const BufferId id : plan.buffers.ids()) {
    const Buffer& b = plan.buffers[id];
    if (b.placement != Placement::lent) continue;
    const auto result = made.find(b.index);
    if (result == made.end() || b.last_step >= result->second) {
      return internal_error(fmt::format("buffer {} lives when result {}, whose bytes it has, does",
                                        id.value(), b.index));
    }
  }
  return ok_status();
}

}  // namespace plimsoll::planner
