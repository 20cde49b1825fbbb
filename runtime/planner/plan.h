// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/alignment.h"
#include "runtime/base/id.h"
#include "runtime/base/memory_space.h"
#include "runtime/ir/codec/codec.h"
#include "runtime/ir/module.h"

namespace plimsoll::planner {

// Codecs are ir's (runtime/ir/codec); plans are full of them.
using ir::Codec;
using ir::CodecKind;
using ir::Coding;
using ir::EncodedInput;
using ir::EncodedOutput;

inline constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

// Of Plan::buffers; -1 where there is none (tokens, no workspace).
using BufferId = Id<struct BufferTag>;
// Of Plan::steps.
using StepId = Id<struct StepTag>;

// Where a buffer's bytes are: in device memory, or on a tier, in the order of MemorySpace.
enum class Placement : std::uint8_t {
  arena,      // at `offset` of the plan's arena
  parameter,  // the caller's buffer of parameter leaf `index`
  output,     // the caller's buffer of result leaf `index`
  lent,       // at `offset` of that buffer, before the result is made: a temporary
  constant,   // the constant instruction `source`, on the device or in host memory (`host`)
// One a tier: at `offset` of the plan's block there; only transfers touch it (swaps, SlicedState).
#define PLIMSOLL_TIER(tier, ...) tier,
#include "runtime/base/memory_spaces.def"
#undef PLIMSOLL_TIER
};

constexpr MemorySpace space_of(Placement placement) {
  const int beyond = static_cast<int>(placement) - static_cast<int>(Placement::constant);
  return static_cast<MemorySpace>(beyond > 0 ? beyond : 0);
}
constexpr bool is_tier(Placement placement) { return is_tier(space_of(placement)); }
// Of what is on that tier.
constexpr Placement placement_on(MemorySpace tier) {
  return static_cast<Placement>(static_cast<int>(Placement::constant) + static_cast<int>(tier));
}
static_assert(space_of(Placement::arena) == MemorySpace::device &&
              space_of(Placement::constant) == MemorySpace::device &&
              space_of(Placement::host) == MemorySpace::host &&
              placement_on(MemorySpace::disk) == Placement::disk);

struct Buffer {
  Placement placement = Placement::arena;
  std::int64_t offset = 0;  // arena, lent, tiers: a multiple of device::kBufferAlignment
  int index = 0;            // parameter or output leaf
  std::int64_t bytes = 0;
  // First and last step that touch it, inclusive. Parameters of residency `resident` and outputs
  // are held for the whole run whatever these say; what is lent of an output's buffer is not
  // touched from its first step on.
  StepId first_step{0}, last_step{0};
  const ir::Instruction* source = nullptr;  // what it holds first (in-place reuse may change that)
  int leaf = 0;                             // which leaf of `source`
  bool pinned = false;                      // a collective or a transfer needs it pinned or shared
  // A parameter, constant or output in host memory, which costs nothing: only uploads read the
  // first two, and only downloads write the last.
  bool host = false;
  bool donated = false;  // a parameter that steps may write
};

enum class StepKind : std::uint8_t {
  compute,
  recompute,
  encode,
  decode,
  swap_out,   // inputs[0] (arena) -> outputs[0] (a tier); goes on in the background until its
              // swap_wait; before that neither buffer may be written or evicted, nor the second
              // read
  swap_in,    // inputs[0] (a tier) -> outputs[0] (arena); as swap_out
  swap_wait,  // waits for the transfer that step `transfer` started
  collective_start,
  collective_done,
  copy,      // inputs[0] -> outputs[0]
  upload,    // inputs[0], the host buffer of a parameter of residency `host`, or of a constant that
             // does not stay on the device -> outputs[0] (arena)
  download,  // inputs[0] -> outputs[0], the buffer of an output in host memory
  free,      // bookkeeping: inputs[] are dead from here on
};

// A leaf of a while's state that is a residual of stacked slices (ir/dataflow/scan_residuals.h) on
// a tier, of which the arena holds a window of kSlots slices: round n works on slice first + n *
// step, in slot n % kSlots. A residual that is written is copied out slice by slice, each once its
// round is over; one that is read is copied in, each a round ahead; both in the background. The
// body sees the residual at the address where it would begin if the slice in the window were in its
// place.
struct SlicedState {
  static constexpr int kSlots = 2;
  int leaf = 0;
  bool writes = false;
  BufferId window;
  std::int64_t slices = 0, slice_bytes = 0;
  std::int64_t rounds = 0, first = 0, step = 0;
  bool synchronous = false;  // its transfers (Step::synchronous)

  // Where the slices lie on their tier, and what that takes.
  std::int64_t stride() const { return aligned_bytes(slice_bytes); }
  std::int64_t stored_bytes() const { return slices * stride(); }
  // A slice keeps its place modulo the alignment, so that the residual's address is aligned.
  std::int64_t slot_bytes() const {
    return slice_bytes % kBufferAlignment == 0 ? slice_bytes
                                               : aligned_bytes(slice_bytes + kBufferAlignment - 1);
  }
  std::int64_t window_bytes() const { return kSlots * slot_bytes(); }
  // Of slice `index` in its slot.
  std::int64_t slot_offset(std::int64_t index) const {
    return index * slice_bytes % kBufferAlignment;
  }
  bool operator==(const SlicedState&) const = default;
};

struct Plan;

struct Step {
  StepKind kind = StepKind::compute;
  // encode, decode, swap_*: what made the value that is moved, and which leaf of it.
  const ir::Instruction* instruction = nullptr;
  int leaf = 0;
  Codec codec;      // encode: inputs[0] plain -> outputs[0] encoded; decode: back
  StepId transfer;  // swap_wait: the swap_out or swap_in
  // swap_out, swap_in: whoever runs the steps makes the copy, which is over when the step is.
  bool synchronous = false;
  // compute, recompute: which inputs are read as they were encoded, and what the outputs behind
  // those of the result hold. A result that is stored so may have no output itself (-1).
  Coding coding;
  // One per array leaf of the operands in operand order, and of the result (device/kernel.h's
  // order).
  std::vector<BufferId> inputs, outputs;
  BufferId workspace;
  // Per tier, the block of this step's callees; -1: they need none.
  PerTier<BufferId> tier_workspaces;
  // call: {callee}; while: {condition, body}; conditional: branches. Each callee's arena is the
  // workspace of this step; the workspace is as large as the largest of them needs (a while's
  // condition and body may share it).
  //   call, conditional: callee parameters are this step's inputs, callee outputs its outputs.
  //   conditional: a parameter whose place a branch's result takes (Plan::state_leaf) is the output
  //   itself, into which the executor first copies the input unless it is there.
  //   while: the state lives in this step's outputs (the executor first copies inputs there unless
  //   they are the same buffers); condition and body take the state as parameters.
  std::vector<std::shared_ptr<const Plan>> callees;
  // while: of these leaves the output is a buffer of the tier; so is the input of one that is read,
  // and one that is written has none.
  std::vector<SlicedState> sliced;
};

// Bytes at the peak, by cause.
struct BytesByCause {
  std::int64_t parameters = 0, constants = 0, outputs = 0, temporaries = 0, workspaces = 0;
};

struct StepCounts {
  std::int64_t compute = 0, recompute = 0, encode = 0, decode = 0, swap_out = 0, swap_in = 0,
               collective = 0;
  std::int64_t upload = 0;  // of parameters and constants in host memory
  // By compute steps themselves: results that they encode, inputs that they decode.
  std::int64_t fused_encode = 0, fused_decode = 0;
  std::int64_t all_encodes() const { return encode + fused_encode; }
  std::int64_t lossy = 0;  // of the encodes, those by a codec that changes bits
};

// A schedule with addresses for one computation. Immutable; refers to the module's instructions,
// which must outlive it.
struct Plan {
  const ir::Computation* computation = nullptr;
  IdVector<BufferId, Buffer> buffers;
  IdVector<StepId, Step> steps;
  // Per leaf of the result, the buffer that holds it at the end. Entry, call and conditional plans:
  // an `output` buffer, or a donated `parameter`. Loop bodies: parameter k's buffer for leaf k, or
  // an arena or constant buffer that the executor copies to the state; never another parameter.
  std::vector<BufferId> results;
  // The parameter leaf whose buffer holds result leaf `k` at the end; -1: another buffer.
  int state_leaf(int k) const {
    const BufferId id = results[static_cast<std::size_t>(k)];
    return id >= 0 && buffers[id].placement == Placement::parameter ? buffers[id].index : -1;
  }

  std::int64_t arena_bytes = 0;      // packed
  PerTier<std::int64_t> tier_bytes;  // blocks of the tiers, packed, callees included
  // Parameters + constants + outputs (those not in donated parameters) + arena, callees included;
  // of the constants those that stay on the device. What is lent (Placement) is in the outputs.
  std::int64_t peak_bytes = 0;
  std::int64_t live_bytes = 0;  // the same by liveness alone (a perfect packing's peak)
  std::int64_t limit_bytes = kUnlimited;
  std::int64_t recomputed_bytes = 0;  // bytes written by recompute steps
  double predicted_seconds = 0, unlimited_seconds = 0, planning_seconds = 0;
  // No plan with first executions in this one's order is faster under this limit (bound.h).
  double lower_bound_seconds = 0;
  StepCounts counts;  // callees included, loop bodies once
  BytesByCause by_cause;
  std::string policy;
};

}  // namespace plimsoll::planner
