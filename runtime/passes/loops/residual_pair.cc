// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/loops/residual_pair.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "runtime/base/index.h"
#include "runtime/ir/dataflow/run_again.h"
#include "runtime/ir/dataflow/views.h"
#include "runtime/ir/hint.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

bool takes_element(const Instruction& tuple, int element) {
  return std::any_of(tuple.users().begin(), tuple.users().end(), [&](const Instruction* user) {
    return user->opcode() == Opcode::get_tuple_element && user->attributes().tuple_index == element;
  });
}

// A residual with how it is written and read.
struct Found {
  Residual residual;
  ir::ResidualAccess writes, reads;
};

// Of element `leaf` of the backward loop's state, where that is a residual of a forward loop.
std::optional<Found> find_residual(Instruction& backward, int leaf) {
  const Instruction& start = *backward.operand(0);
  const Instruction& stacked = *start.operand(leaf);
  if (stacked.opcode() != Opcode::get_tuple_element || stacked.users().size() != 1 ||
      std::count(start.operands().begin(), start.operands().end(), &stacked) != 1 ||
      start.users().size() != 1 || takes_element(backward, leaf) ||
      !ir::passes_through(backward, leaf)) {
    return std::nullopt;
  }
  const Instruction& forward = *stacked.operand(0);
  if (forward.opcode() != Opcode::while_ || !has_flat_state(forward)) return std::nullopt;
  const auto forward_leaf = static_cast<int>(stacked.attributes().tuple_index);
  auto writes = ir::find_residual_access(forward, forward_leaf);
  if (!writes || !writes->writes || (writes->step != 1 && writes->step != -1)) return std::nullopt;
  auto reads = ir::find_residual_access(backward, leaf);
  if (!reads || reads->writes) return std::nullopt;
  const Instruction& update = *writes->by.front();
  if (update.opcode() != Opcode::dynamic_update_slice ||
      !ir::is_row_major(update.operand(1)->shape())) {
    return std::nullopt;
  }
  for (const Instruction* read : reads->by) {
    if (read->opcode() != Opcode::dynamic_slice || !ir::is_row_major(read->shape()) ||
        read->operand(0)->opcode() != Opcode::get_tuple_element) {
      return std::nullopt;
    }
  }
  Residual residual{leaf, update.operand(1), reads->by};
  return Found{std::move(residual), std::move(*writes), std::move(*reads)};
}

}  // namespace

bool has_loops(const ir::Module& module) {
  for (const Computation* program : programs_of(module)) {
    for (const auto& instruction : program->instructions()) {
      if (instruction->opcode() == Opcode::while_) return true;
    }
  }
  return false;
}

bool has_flat_state(const Instruction& loop) {
  const Instruction& root = *loop.while_body()->root();
  return loop.shape().is_tuple() &&
         std::all_of(loop.shape().elements().begin(), loop.shape().elements().end(),
                     [](const ir::Shape& element) { return element.is_array(); }) &&
         loop.operand(0)->opcode() == Opcode::tuple && root.opcode() == Opcode::tuple &&
         root.users().empty() && !loop.is_root() && ir::only_elements_are_taken(loop) &&
         ir::only_elements_are_taken(*loop.while_body()->parameters()[0]) &&
         ir::only_elements_are_taken(*loop.while_condition()->parameters()[0]);
}

void order_as(const Instruction& loop, Instruction& first, Instruction& last) {
  for (Instruction* before : loop.control_predecessors()) first.add_control_predecessor(before);
  for (Instruction* after : loop.control_successors()) after->add_control_predecessor(&last);
}

bool reads_in_reverse(const ResidualPair& pair) {
  return pair.backward_rounds == pair.slices && pair.backward_step == -pair.step &&
         pair.backward_first == pair.first + (pair.slices - 1) * pair.step;
}

bool may_be_repeated(const Instruction& instruction) {
  return ir::may_run_again(instruction) && instruction.control_predecessors().empty() &&
         !ir::must_materialize(instruction);
}

std::vector<ResidualPair> find_residual_pairs(const Computation& computation) {
  std::vector<ResidualPair> pairs;
  for (const auto& instruction : computation.instructions()) {
    if (instruction->opcode() != Opcode::while_ || !has_flat_state(*instruction)) continue;
    // By forward loop and the slices that are touched.
    std::map<std::tuple<int, std::int64_t, std::int64_t, std::int64_t, std::int64_t>, ResidualPair>
        found;
    std::vector<Instruction*> forwards;
    for (int leaf = 0; leaf < instruction->operand(0)->operand_count(); ++leaf) {
      auto residual = find_residual(*instruction, leaf);
      if (!residual) continue;
      Instruction* forward = instruction->operand(0)->operand(leaf)->operand(0);
      auto place = std::find(forwards.begin(), forwards.end(), forward);
      if (place == forwards.end()) place = forwards.insert(place, forward);
      const auto& [kept, writes, reads] = *residual;
      ResidualPair& pair = found[{static_cast<int>(place - forwards.begin()), writes.first,
                                  writes.step, reads.first, reads.step}];
      pair.forward = forward;
      pair.backward = instruction.get();
      pair.slices = writes.slices;
      pair.first = writes.first;
      pair.step = writes.step;
      pair.backward_rounds = reads.rounds;
      pair.backward_first = reads.first;
      pair.backward_step = reads.step;
      pair.index = writes.by.front()->operand(2);
      pair.residuals.push_back(kept);
    }
    for (auto& [key, pair] : found) pairs.push_back(std::move(pair));
  }
  return pairs;
}

}  // namespace plimsoll::passes
