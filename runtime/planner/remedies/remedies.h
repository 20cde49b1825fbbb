// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/codec/codec.h"
#include "runtime/planner/problem/problem.h"
#include "runtime/planner/problem/schedule.h"
#include "runtime/planner/problem/timeline.h"

namespace plimsoll::planner {

// Where the bytes of a value may be while nobody reads it.
enum class RemedyKind : std::uint8_t {
  compress,
// One a tier, in the order of MemorySpace.
#define PLIMSOLL_TIER(tier, ...) swap_##tier,
#include "runtime/base/memory_spaces.def"
#undef PLIMSOLL_TIER
};
// The tier that it goes to; `device` for what is stored there.
constexpr MemorySpace space_of(RemedyKind kind) {
  return static_cast<std::size_t>(kind) <= kTiers.size() ? static_cast<MemorySpace>(kind)
                                                         : MemorySpace::device;
}
constexpr RemedyKind swap_to(MemorySpace tier) { return static_cast<RemedyKind>(tier); }
static_assert(space_of(RemedyKind::compress) == MemorySpace::device &&
              swap_to(MemorySpace::disk) == RemedyKind::swap_disk);

// One return of a value that was evicted; op `ready` reads it. Of a compressed value: from `ready`
// on, reads that can are of what is stored; the decoding runs right before the first read that
// can't, or not at all where there is none until the next return. Of a swapped one: the swap_in is
// started right before op `start` and waited for right before op `ready`.
struct Return {
  OpId start{0}, ready{0};
};

// A value whose arena bytes are evicted between some of its reads. Op numbers are those of the
// problem without choices. The encoding runs, or the swap_out is started, right before op `leave`;
// a swap_out is waited for right before op `left`. Reads before the first return are of the value
// itself, reads from a return on are of that return's copy.
struct Choice {
  ValueId value;
  RemedyKind kind = RemedyKind::compress;
  Codec codec;                                    // compress
  std::int64_t bytes = 0;                         // of the stored form, aligned
  double encode_seconds = 0, decode_seconds = 0;  // compress
  TransferTime out, in;                           // swap
  OpId leave{0}, left{0};
  std::vector<Return> returns;                            // rising
  std::span<const ir::Instruction* const> fused_readers;  // as in Form
  bool fused_encode = false;                              // `leave` says nothing then
};

// One way to store a value elsewhere.
struct Form {
  ValueId value;
  RemedyKind kind = RemedyKind::compress;
  Codec codec;
  std::int64_t bytes = 0;
  double encode_seconds = 0, decode_seconds = 0;  // compress
  TransferTime out, in;                           // swap
  OpId first_return{0};  // it may come back right before this read of it or a later one
  // Compress: the instructions that can read it as it is stored, sorted; of the problem's graph.
  std::span<const ir::Instruction* const> fused_readers;
  bool fused_encode = false;  // compress: what makes it can encode it
};

// Finds schedules by recomputation: of a problem, under an arena limit. `starts` are schedules to
// begin with besides; `effort` is the part of the work that may be done, 0 what takes as long as a
// few eviction simulations, kFirstThatFits what takes as long as one where that gets through.
inline constexpr double kFirstThatFits = -1;
using Recomputer =
    std::function<std::optional<Schedule>(const Problem& problem, std::int64_t arena_limit,
                                          std::span<const Schedule> starts, double effort)>;

// Picks the choices of a plan, for tests of what runs plans.
using Chooser =
    std::function<std::vector<Choice>(const Problem& problem, std::span<const Form> forms)>;

}  // namespace plimsoll::planner
