// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor/step_accesses.h"

#include <algorithm>

namespace plimsoll::executor {
namespace {

using planner::BufferId;
using planner::Placement;
using planner::StepKind;

void add_access(const planner::Plan& plan, BufferId id, bool writes, std::vector<Access>& to) {
  if (const std::optional<Access> made = access_of(plan, id, writes)) to.push_back(*made);
}

}  // namespace

std::optional<Access> access_of(const planner::Plan& plan, BufferId id, bool writes) {
  if (id < 0) return std::nullopt;
  const planner::Buffer& buffer = plan.buffers[id];
  if (buffer.bytes == 0) return std::nullopt;
  const std::int64_t begin = buffer.offset, end = buffer.offset + buffer.bytes;
  switch (buffer.placement) {
    case Placement::arena:
      return Access{0, begin, end, writes};
    case Placement::parameter:
      return Access{1 + 2 * std::int64_t{buffer.index}, begin, end, writes};
    case Placement::output:
    case Placement::lent:
      return Access{2 + 2 * std::int64_t{buffer.index}, begin, end, writes};
    case Placement::constant:  // nobody writes it
    default:                   // only transfers touch a tier, and they keep their order
      return std::nullopt;
  }
}

std::vector<Access> accesses_of(const planner::Plan& plan, const planner::Step& step) {
  std::vector<Access> made;
  // A wait ends what its start began.
  const planner::Step& moved = step.kind == StepKind::swap_wait ? plan.steps[step.transfer] : step;
  for (const BufferId id : moved.inputs) add_access(plan, id, false, made);
  for (const BufferId id : moved.outputs) add_access(plan, id, true, made);
  add_access(plan, moved.workspace, true, made);
  for (const planner::SlicedState& state : moved.sliced) {
    add_access(plan, state.window, true, made);
  }
  return made;
}

int Space::before(const Access& access) const {
  int last = -1;
  auto it = pieces_.upper_bound(access.begin);
  if (it != pieces_.begin()) --it;
  for (; it != pieces_.end() && it->first < access.end; ++it) {
    if (it->second.end <= access.begin) continue;
    last = std::max(last, it->second.write);
    if (access.writes) last = std::max(last, it->second.read);
  }
  return last;
}

void Space::note(const Access& access, int launch) {
  split(access.begin);
  split(access.end);
  auto it = pieces_.lower_bound(access.begin);
  if (access.writes) {
    // Whoever touched it before is in an earlier launch.
    while (it != pieces_.end() && it->first < access.end) it = pieces_.erase(it);
    pieces_.emplace_hint(it, access.begin, Piece{access.end, launch, -1});
    return;
  }
  std::int64_t at = access.begin;
  while (at < access.end) {
    if (it == pieces_.end() || it->first > at) {
      const std::int64_t end = it == pieces_.end() ? access.end : std::min(access.end, it->first);
      pieces_.emplace_hint(it, at, Piece{end, -1, launch});
      at = end;
      continue;
    }
    it->second.read = std::max(it->second.read, launch);
    at = it->second.end;
    ++it;
  }
}

void Space::split(std::int64_t at) {
  auto it = pieces_.lower_bound(at);
  if (it == pieces_.begin()) return;
  --it;
  if (it->second.end <= at) return;
  Piece rest = it->second;
  it->second.end = at;
  pieces_.emplace(at, rest);
}

}  // namespace plimsoll::executor
