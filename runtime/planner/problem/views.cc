// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/problem/views.h"

#include "runtime/base/index.h"
#include "runtime/ir/fusions/in_place.h"

namespace plimsoll::planner {
namespace {

bool is_row_major(const ir::Shape& shape) {
  const ir::Layout* layout = shape.layout();
  if (layout == nullptr) return true;
  std::int64_t expected = static_cast<std::int64_t>(layout->minor_to_major.size());
  for (const std::int64_t dim : layout->minor_to_major) {
    if (dim != --expected) return false;
  }
  return true;
}

// Loops in loops that share bodies would take exponential time; what is not found out in this many
// steps counts as changed.
constexpr int kMostSteps = 10'000;

bool stays(const ir::Instruction& loop, int leaf, int& steps);

// Follows leaf `leaf` of `value` back through what only hands it on.
void trace_back(const ir::Instruction*& value, int& leaf, int& steps) {
  while (steps-- > 0) {
    switch (value->opcode()) {
      case ir::Opcode::get_tuple_element: {
        const ir::Shape& tuple = value->operand(0)->shape();
        leaf += ir::leaf_offset(tuple, static_cast<int>(value->attributes().tuple_index));
        value = value->operand(0);
        break;
      }
      case ir::Opcode::tuple: {
        int k = 0;
        while (leaf >= ir::leaf_count(value->operand(k)->shape())) {
          leaf -= ir::leaf_count(value->operand(k)->shape());
          ++k;
        }
        value = value->operand(k);
        break;
      }
      case ir::Opcode::opt_barrier:
      case ir::Opcode::domain:
      case ir::Opcode::add_dependency:
        value = value->operand(0);
        break;
      case ir::Opcode::while_:
        if (!stays(*value, leaf, steps)) return;
        value = value->operand(0);
        break;
      default:
        return;
    }
  }
}

bool stays(const ir::Instruction& loop, int leaf, int& steps) {
  const ir::Instruction* value = loop.while_body()->root();
  int from = leaf;
  trace_back(value, from, steps);
  return from == leaf && value->opcode() == ir::Opcode::parameter &&
         ir::leaves(value->shape())[at(leaf)]->is_array();
}

}  // namespace

bool passes_through(const ir::Instruction& loop, int leaf) {
  int steps = kMostSteps;
  return loop.opcode() == ir::Opcode::while_ && stays(loop, leaf, steps);
}

bool is_view(const ir::Instruction& instruction) {
  switch (instruction.opcode()) {
    case ir::Opcode::parameter:
    case ir::Opcode::tuple:
    case ir::Opcode::get_tuple_element:
    case ir::Opcode::domain:
    case ir::Opcode::opt_barrier:
    case ir::Opcode::after_all:
    case ir::Opcode::add_dependency:
    case ir::Opcode::reshape:
      return true;
    case ir::Opcode::bitcast:
      return is_row_major(instruction.shape()) && is_row_major(instruction.operand(0)->shape());
    default:
      return false;
  }
}

bool reuses_operand(const ir::Instruction& instruction, int operand_leaf, int output_leaf) {
  switch (instruction.opcode()) {
    case ir::Opcode::while_:
      return operand_leaf == output_leaf;
    case ir::Opcode::call:
    case ir::Opcode::conditional:
      return false;
    default:
      return ir::may_reuse_operand(instruction, operand_leaf, output_leaf);
  }
}

const ir::Instruction* async_start_of(const ir::Instruction& done) {
  switch (done.opcode()) {
    case ir::Opcode::all_reduce_done:
    case ir::Opcode::all_gather_done:
    case ir::Opcode::collective_permute_done:
    case ir::Opcode::copy_done:
    case ir::Opcode::async_done:
    case ir::Opcode::send_done:
      break;
    default:
      return nullptr;
  }
  const ir::Instruction* start = done.operand(0);
  while (start->opcode() == ir::Opcode::async_update) start = start->operand(0);
  return start;
}

}  // namespace plimsoll::planner
