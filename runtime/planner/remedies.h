// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/planner/codec.h"
#include "runtime/planner/evaluate.h"
#include "runtime/planner/problem.h"

namespace plimsoll::planner {

// Where the bytes of a value may be while nobody reads it.
enum class RemedyKind : std::uint8_t { compress, swap_host, swap_disk };

// One copy of a value that comes back: the decoding runs right before the first read from `ready`
// on that can't be of what is stored, or not at all where there is none until the next return; a
// swap_in is
// started right before op `start` and waited for right before op `ready`. `ready` reads the value.
struct Return {
  OpId start = 0, ready = 0;
};

// A value whose arena bytes are given up between some of its reads. Op numbers are those of the
// problem without choices. The encoding runs, or the swap_out is started, right before op `leave`;
// a swap_out is waited for right before op `left`. Reads before the first return are of the value
// itself, reads from a return on are of that return's copy.
struct Choice {
  ValueId value = -1;
  RemedyKind kind = RemedyKind::compress;
  Codec codec;             // compress
  std::int64_t bytes = 0;  // of the stored form, aligned
  double out_seconds = 0, in_seconds = 0;
  double compute_share = 0;  // of the tier
  OpId leave = 0, left = 0;
  std::vector<Return> returns;                     // rising
  std::span<const ir::Instruction* const> direct;  // as in Form
  bool by_producer = false;                        // `leave` says nothing then
};

// One way to store a value elsewhere.
struct Form {
  ValueId value = -1;
  RemedyKind kind = RemedyKind::compress;
  Codec codec;
  std::int64_t bytes = 0;
  double out_seconds = 0, in_seconds = 0;
  double compute_share = 0;  // of the tier
  OpId first_return = 0;     // it may come back right before this read of it or a later one
  // Compress: the instructions that can read it as it is stored, sorted; of the problem's graph.
  std::span<const ir::Instruction* const> direct;
  bool by_producer = false;  // compress: what makes it can encode it
};

// Whether the op can read a value as a form stores it.
bool reads_directly(const Op& op, std::span<const ir::Instruction* const> direct);

// What the value takes at least where the op reads or makes it, in one of these forms (all of the
// problem's).
std::int64_t least_bytes_at(const Problem& problem, std::span<const Form> forms, OpId op,
                            ValueId value);

// Everything that may be done with the problem's values under these options, `keep` hints, the
// smallest size, tiers and remedies respected; by value. The graph's codecs must be there.
std::vector<Form> find_forms(const Problem& problem, const PlanOptions& options);

// The choice that uses `form` in the gap before the read `ready`, transfers waited for where they
// are started, returning there alone.
Choice choose_form(const Problem& problem, const Form& form, OpId ready);

// The problem in which these choices are taken: encode, decode and swap ops stand among the others,
// copies that come back are values of their own, so that every value has one producer and whatever
// schedules or recomputes needs to know nothing of remedies. One choice per value at most.
// INVALID_ARGUMENT when a choice is not possible: its value is not made in the arena, must survive
// to the end, is held by an asynchronous op, or the choice's ops stand in no possible order.
// `origin`, when given, receives per value of the result the value of `problem` that it is or
// holds.
Result<Problem> apply_choices(const Problem& problem, std::span<const Choice> choices,
                              std::vector<ValueId>* origin = nullptr);

// Finds schedules by recomputation: of a problem, under an arena limit.
using Recomputer =
    std::function<std::optional<Schedule>(const Problem& problem, std::int64_t arena_limit)>;

// True when no value is made again while a swap_out reads its bytes, and every swap_in of the
// schedule has its swap_wait: the schedules that emit_plan takes.
bool keeps_transfers(const Problem& problem, std::span<const OpId> schedule);

// E.g. "compress x by compare-mask(gt, 0)": for people.
std::string to_string(const Problem& problem, const Choice& choice);

// A plan of the entry computation that takes just the choices that `choose` makes for its problem
// and recomputes nothing, whatever the limit: for tests of what runs plans. INVALID_ARGUMENT as
// apply_choices.
using Chooser =
    std::function<std::vector<Choice>(const Problem& problem, std::span<const Form> forms)>;
Result<Plan> plan_with_choices(const ir::Module& module, const CostModel& cost_model,
                               const PlanOptions& options, const Chooser& choose);

}  // namespace plimsoll::planner
