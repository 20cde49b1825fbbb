// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/check/check_packing.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/index.h"

namespace plimsoll::planner {

// Sweeps over the steps with the live buffers sorted by offset: neighbours may not touch.
//
// Looking at neighbours is enough. The live buffers do not overlap before the step (by induction),
// so their ranges stand in a row; one that begins at or above the new offset can only be reached
// through the next one above, and of those that begin below, the nearest ends last. With n buffers
// that is O(n log n), where comparing all pairs would be O(n^2).
Result<PlacedBytes> check_overlaps(const Plan& plan, Placement placement) {
  const auto steps = static_cast<std::int32_t>(plan.steps.size());
  std::vector<std::pair<std::int32_t, BufferId>> starts, ends;
  PlacedBytes placed;
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    const Buffer& b = plan.buffers[i];
    if (b.placement != placement) continue;
    if (b.first_step > b.last_step || b.first_step < 0 || b.last_step >= std::max(steps, 1)) {
      return internal_error("buffer " + std::to_string(i) + " has a bad life");
    }
    if (b.bytes == 0) continue;
    placed.end = std::max(placed.end, b.offset + b.bytes);
    starts.emplace_back(b.first_step, static_cast<BufferId>(i));
    ends.emplace_back(b.last_step, static_cast<BufferId>(i));
  }
  std::sort(starts.begin(), starts.end());
  std::sort(ends.begin(), ends.end());
  std::map<std::int64_t, std::int64_t> live;  // offset -> end
  std::int64_t bytes = 0;
  std::size_t next_end = 0;
  for (const auto& [step, id] : starts) {
    while (next_end < ends.size() && ends[next_end].first < step) {
      const Buffer& b = plan.buffers[at(ends[next_end++].second)];
      live.erase(b.offset);
      bytes -= b.bytes;
    }
    const Buffer& b = plan.buffers[at(id)];
    const auto above = live.lower_bound(b.offset);
    if ((above != live.end() && above->first < b.offset + b.bytes) ||
        (above != live.begin() && std::prev(above)->second > b.offset)) {
      return internal_error("buffer " + std::to_string(id) + " overlaps a live one at step " +
                            std::to_string(step));
    }
    live.emplace(b.offset, b.offset + b.bytes);
    bytes += b.bytes;
    placed.live = std::max(placed.live, bytes);
  }
  return placed;
}

}  // namespace plimsoll::planner
