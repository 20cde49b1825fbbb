// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "runtime/base/id.h"
#include "runtime/ir/module.h"
#include "runtime/planner/plan.h"
#include "runtime/planner/planner.h"

namespace plimsoll::planner {

using OpId = Id<struct OpTag>;
using ValueId = Id<struct ValueTag>;
// The time of what can't be done.
inline constexpr double kInfinite = std::numeric_limits<double>::infinity();
inline constexpr OpId kNever{std::numeric_limits<std::int32_t>::max()};

// How a computation is run, which decides what its results may be (plan.h, Plan::results).
enum class Role : std::uint8_t { entry, callee, condition, body };

// Where a value lives once it is made. Only `arena` costs arena bytes; what is elsewhere stays
// there for good and is never recomputed. Tiers hold what was swapped out.
using Home = Placement;

struct Value {
  std::int64_t bytes = 0;  // aligned
  OpId producer;           // -1: a parameter or a constant
  const ir::Instruction* source = nullptr;
  int leaf = 0;  // of source
  Home home = Home::arena;
  int index = -1;         // parameter or result leaf of `home`
  bool live_out = false;  // an arena value that must survive to the end
  // Not evicted before its last read, though it may be recomputed later: a transfer works on its
  // bytes, or its author asked for it.
  bool keep = false;
  OpId kept_until{0};         // not evicted before this op, which reads it, has run
  OpId overwritten = kNever;  // parameters: the op that writes its buffer
  Hint hint = Hint::none;     // of the instruction, or of a view of the value
};

// One callee plan that a control-flow op may use.
struct Variant {
  std::int64_t arena_bytes = 0;
  double seconds = 0;  // of the callees, trip counts included
  std::vector<std::shared_ptr<const Plan>> callees;
};

struct Op {
  StepKind kind = StepKind::compute;
  const ir::Instruction* instruction = nullptr;
  int leaf =
      0;  // copy, download: result leaf; upload: parameter leaf; encode ... swap_wait: as in Step
  Codec codec;              // encode, decode
  std::int8_t engine = -1;  // swap_out, swap_in: which one does it (timeline.h)
  OpId transfer;            // swap_wait: the swap_out or swap_in it waits for
  double seconds = 0;  // the callees' part excluded; of a transfer: how long it keeps its engine
  double taken_seconds = 0;  // of a transfer: what compute steps lose to it
  bool synchronous = false;  // of a transfer (timeline.h)
  std::int64_t workspace = 0;
  bool recomputable = false;
  std::int32_t variants = -1;  // control flow: row of Graph::variants
  std::int32_t coding = -1;    // row of Problem::codings
  std::int32_t sliced = -1;    // a loop some of whose residuals are sliced: of Problem::sliced
};

// In place: `output` may be written into the buffer of `input` when that dies at the op.
struct Reuse {
  ValueId input, output;
};

// A codec that a value may be stored by, and what that costs.
struct CodecForm {
  ValueId value;
  Codec codec;
  std::int64_t bytes = 0;  // encoded, aligned
  double encode_seconds = 0, decode_seconds = 0;
  // compare_mask: the instructions that read no more than it keeps, sorted; others may not read
  // what was decoded.
  std::vector<const ir::Instruction*> readers;
  // Those that can read it as it is encoded, sorted; and whether what makes it can encode it.
  std::vector<const ir::Instruction*> fused_readers;
  bool fused_encode = false;
};

// What one computation computes, as compact arrays: an op per instruction that does work, a value
// per array leaf that has bytes of its own (views share one value). Dead instructions are left out.
struct Graph {
  const ir::Computation* computation = nullptr;
  Role role = Role::entry;
  IdVector<OpId, Op> ops;  // in schedule order
  // Per op, one value per operand / result leaf; -1 for tokens, and for result leaves of a while
  // that are its operand's, unchanged.
  Rows<OpId, ValueId> inputs, outputs;
  Rows<OpId, OpId> after;    // per op, ops that come first although no value says so
  Rows<OpId, ValueId> held;  // per op, values besides its inputs that must stay where they are
                             // until it has run: an asynchronous start's operands, at its done
  IdVector<ValueId, Value> values;
  IdVector<OpId, std::vector<Reuse>> reuse;
  std::vector<ValueId> parameters;  // per parameter leaf; -1 for tokens
  std::vector<ParameterResidency> residency;
  std::vector<ValueId> results;  // per result leaf; -1 for tokens
  std::vector<int> alias;        // per result leaf, the donated parameter leaf it goes to, or -1
  std::vector<bool> results_on_host;  // per result leaf; empty: none
  Tier host;  // the link over which parameters and results in host memory go
  std::vector<std::vector<Variant>> variants;  // fastest first, arena strictly falling
  std::vector<CodecForm> codecs;               // by value, fewest bytes first (find_codecs)

  bool is_on_host(std::size_t result) const {
    return !results_on_host.empty() && results_on_host[result];
  }
};

// The residuals that a loop of a problem has on other tiers, slice by slice.
struct SlicedLoop {
  std::vector<SlicedState> states;  // windows not yet placed
  std::int64_t window_bytes = 0;    // a part of the op's workspace
  std::int64_t rounds = 0;
  // Per round: how long its transfers keep each of the engines (timeline.h), and what compute steps
  // lose to them.
  std::array<double, kEngines> engine_seconds{};
  double taken_seconds = 0;
  double lost_seconds = 0;  // of the whole loop, besides
};

// A graph in execution order, with a home for every value: result copies, their downloads and
// parameter uploads are ops of their own, and every op's number is its place in the order.
struct Problem {
  const Graph* graph = nullptr;
  IdVector<OpId, Op> ops;
  Rows<OpId, ValueId> inputs, outputs;  // per leaf, as in Graph
  Rows<OpId, ValueId> reads;            // inputs and held values, each once, tokens left out
  Rows<ValueId, OpId> uses;             // per value, the ops that read it, rising
  IdVector<ValueId, Value> values;
  IdVector<OpId, std::vector<Reuse>> reuse;
  IdVector<OpId, int> variant;  // the chosen entry of its row of Graph::variants
  std::vector<ValueId> results;
  // Latest op before which the value can still be computed again (a donated parameter it comes from
  // is overwritten there).
  IdVector<ValueId, OpId> deadline;
  // Per value, the value that it is a view of, or -1: a view has no bytes of its own, what reads it
  // reads the other too, and it is undefined as soon as the other is recomputed. Empty: no views.
  IdVector<ValueId, ValueId> view_of;
  std::vector<SlicedLoop> sliced;
  std::vector<Coding> codings;
  std::int64_t parameter_bytes = 0, output_bytes = 0;  // held for the whole run
  // Of the constants that might be streamed (remedies/stream_constants.h) those that stay, which
  // are held for the whole run, too.
  std::int64_t constant_bytes = 0;

  int op_count() const { return static_cast<int>(ops.size()); }
  // Null for an op whose residuals, if it has some, are as any value.
  const SlicedLoop* sliced_loop(OpId op) const {
    const std::int32_t row = ops[op].sliced;
    return row < 0 ? nullptr : &sliced[at(row)];
  }
  bool in_arena(ValueId v) const { return values[v].home == Home::arena; }
};

// Of a copy within the device.
double copy_seconds(std::int64_t bytes);

// Problem::deadline by the rest of the problem.
IdVector<ValueId, OpId> find_deadlines(const Problem& problem);

// The problem with its ops in another order, which must respect what they read: `order[k]` is the
// op that comes k-th.
Problem reordered(const Problem& problem, std::span<const OpId> order);

}  // namespace plimsoll::planner
