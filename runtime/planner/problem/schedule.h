// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/planner/problem/problem.h"

namespace plimsoll::planner {

// Executions in order; an op that occurs again is recomputed. A read is served by the latest
// execution before it.
using Schedule = std::vector<OpId>;
// Every op in its place, and nothing recomputed.
Schedule each_once(const Problem& problem);

// Per value, the views of it; no rows when the problem has no views.
Rows<ValueId, ValueId> list_views(const Problem& problem);

// Where every copy of every value dies under a schedule of n executions.
struct Liveness {
  std::vector<std::int32_t> first_output, first_read;  // per position, into the arrays below
  std::vector<std::int32_t> last_use;  // per output: the last position that reads it, n if live out
  std::vector<char> dies;              // per read (Problem::reads): it is the copy's last
};
Liveness find_liveness(const Problem& problem, std::span<const OpId> schedule);

// The values whose copy nobody wants after position `t`: what is read there for the last time, then
// what is made there for nobody.
std::vector<ValueId> dead_after(const Problem& problem, std::span<const OpId> schedule,
                                const Liveness& liveness, std::size_t t);

// Which outputs of `op` take over the buffer of an input that dies there; `dies` is per read.
void match_in_place(const Problem& problem, OpId op, std::span<const char> dies,
                    std::vector<Reuse>& taken);

// Bytes and time of a schedule by exact liveness, with in-place reuse. `profile`, when given,
// receives the arena bytes at each position.
struct Evaluation {
  std::int64_t arena_peak = 0;
  std::int32_t peak_position = 0;
  double seconds = 0;
};
Evaluation evaluate(const Problem& problem, std::span<const OpId> schedule,
                    std::vector<std::int64_t>* profile = nullptr);

// The time of all executions, added up in an order that does not depend on the schedule's.
double total_seconds(const Problem& problem, std::span<const OpId> schedule);

// True when every op runs, only what may be is recomputed, every read finds its value made and no
// view of something that was recomputed since, and nothing reads a donated parameter after its
// buffer is overwritten.
bool is_valid(const Problem& problem, std::span<const OpId> schedule);

}  // namespace plimsoll::planner
