// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/dataflow/views.h"

#include <algorithm>

#include "runtime/base/index.h"
#include "runtime/ir/fusions/in_place.h"

namespace plimsoll::ir {
namespace {

// Loops in loops that share bodies would take exponential time; what is not found out in this many
// steps counts as changed.
constexpr int kMostTraceSteps = 10'000;

bool stays(const Instruction& loop, int leaf, int& steps);

// Follows leaf `leaf` of `value` back through what only hands it on.
void trace_back(const Instruction*& value, int& leaf, int& steps) {
  while (steps-- > 0) {
    switch (value->opcode()) {
      case Opcode::get_tuple_element: {
        const Shape& tuple = value->operand(0)->shape();
        leaf += leaf_offset(tuple, static_cast<int>(value->attributes().tuple_index));
        value = value->operand(0);
        break;
      }
      case Opcode::tuple: {
        int k = 0;
        while (leaf >= leaf_count(value->operand(k)->shape())) {
          leaf -= leaf_count(value->operand(k)->shape());
          ++k;
        }
        value = value->operand(k);
        break;
      }
      case Opcode::opt_barrier:
      case Opcode::domain:
      case Opcode::add_dependency:
        value = value->operand(0);
        break;
      case Opcode::while_:
        if (!stays(*value, leaf, steps)) return;
        value = value->operand(0);
        break;
      default:
        return;
    }
  }
}

bool stays(const Instruction& loop, int leaf, int& steps) {
  const Instruction* value = loop.while_body()->root();
  int from = leaf;
  trace_back(value, from, steps);
  return from == leaf && value->opcode() == Opcode::parameter &&
         leaves(value->shape())[at(leaf)]->is_array();
}

}  // namespace

bool passes_through(const Instruction& loop, int leaf) {
  int steps = kMostTraceSteps;
  return loop.opcode() == Opcode::while_ && stays(loop, leaf, steps);
}

bool only_elements_are_taken(const Instruction& tuple) {
  return std::all_of(tuple.users().begin(), tuple.users().end(), [](const Instruction* user) {
    return user->opcode() == Opcode::get_tuple_element && user->control_predecessors().empty() &&
           user->control_successors().empty();
  });
}

bool reuses_operand(const Instruction& instruction, int operand_leaf, int output_leaf) {
  switch (instruction.opcode()) {
    case Opcode::while_:
      return operand_leaf == output_leaf;
    case Opcode::call:
    case Opcode::conditional:
      return false;
    default:
      return may_reuse_operand(instruction, operand_leaf, output_leaf);
  }
}

const Instruction* async_start_of(const Instruction& done) {
  switch (done.opcode()) {
    case Opcode::all_reduce_done:
    case Opcode::all_gather_done:
    case Opcode::collective_permute_done:
    case Opcode::copy_done:
    case Opcode::async_done:
    case Opcode::send_done:
    case Opcode::recv_done:
      break;
    default:
      return nullptr;
  }
  const Instruction* start = done.operand(0);
  while (start->opcode() == Opcode::async_update) start = start->operand(0);
  return start;
}

}  // namespace plimsoll::ir
