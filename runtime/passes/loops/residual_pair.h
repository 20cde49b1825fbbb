// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "runtime/ir/dataflow/scan_residuals.h"
#include "runtime/ir/module.h"

namespace plimsoll::passes {

// An array that the forward loop stacks a slice a round and that nothing reads but the backward
// loop, a slice a round.
struct Residual {
  int backward_leaf = 0;                      // of the state
  ir::Instruction* update = nullptr;          // of the forward body: the slice that is stacked
  std::vector<const ir::Instruction*> reads;  // dynamic-slices of the backward body
};

// A while and another behind it in the same computation, both with flat states of arrays.
struct ResidualPair {
  ir::Instruction* forward = nullptr;
  ir::Instruction* backward = nullptr;
  std::vector<Residual> residuals;  // all written, and read, at the same slices in the same rounds
  std::int64_t slices = 0;
  std::int64_t first = 0, step = 0;  // round n of the forward loop writes slice first + n * step
  std::int64_t backward_rounds = 0, backward_first = 0, backward_step = 0;  // the same of its reads
  const ir::Instruction* index = nullptr;  // of the forward body: the slice of this round
};

// A while over a tuple of arrays whose elements alone are taken, in the loop and behind it.
bool has_flat_state(const ir::Instruction& loop);
// Gives what takes the place of a loop, from `first` to `last`, the control edges that it has.
void order_as(const ir::Instruction& loop, ir::Instruction& first, ir::Instruction& last);

// Whether the backward loop goes once through the slices, in the reverse of the order in which the
// forward loop writes them.
bool reads_in_reverse(const ResidualPair& pair);

// Whether a backward round may compute it once more: it has no effects, nothing has to come before
// it by a control dependence, and no hint keeps its value.
bool may_be_repeated(const ir::Instruction& instruction);

// In schedule order of the backward loops.
std::vector<ResidualPair> find_residual_pairs(const ir::Computation& computation);

}  // namespace plimsoll::passes
