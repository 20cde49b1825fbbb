// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "runtime/planner/plan.h"

namespace plimsoll::executor {

// Bytes that a step reads or writes. Memory of one space (the arena, a parameter's, an output's) is
// apart from that of all others.
struct Access {
  std::int64_t space = 0;
  std::int64_t begin = 0, end = 0;
  bool writes = false;
};

// What a step touches of device memory, by the addresses that the plan gives it: a transfer from
// its start to the end of its wait; calls, loops and conditionals their operands, results,
// workspace and windows. Constants are left out, as nobody writes them.
std::vector<Access> accesses_of(const planner::Plan& plan, const planner::Step& step);
// Of one buffer: one, or none where nobody can be in the way (constants, tiers, no bytes).
std::optional<Access> access_of(const planner::Plan& plan, planner::BufferId id, bool writes);

// The last launch that read, and the last that wrote, each byte of a space: launches are noted in
// the order of their numbers, which may have gaps. An interval map; both functions take O(log n)
// and what they remove.
class Space {
 public:
  // The last launch that must be over before `access` may begin; -1: none.
  int before(const Access& access) const;
  void note(const Access& access, int launch);

 private:
  struct Piece {
    std::int64_t end = 0;
    int write = -1, read = -1;
  };
  void split(std::int64_t at);

  std::map<std::int64_t, Piece> pieces_;  // by where they begin
};

}  // namespace plimsoll::executor
