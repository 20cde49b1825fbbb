// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/passes/all_branches.h"
#include "runtime/passes/simplify/simplify_rules.h"

namespace plimsoll::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

// More than these take longer than the memory that a select reads and writes anyway.
constexpr int kMostOperations = 48;

// Costs no more than reading its operands, element by element.
bool is_cheap(Opcode opcode) {
  switch (opcode) {
    case Opcode::parameter:
    case Opcode::constant:
    case Opcode::tuple:
    case Opcode::get_tuple_element:
    case Opcode::broadcast:
    case Opcode::reshape:
    case Opcode::abs:
    case Opcode::add:
    case Opcode::and_:
    case Opcode::compare:
    case Opcode::convert:
    case Opcode::divide:
    case Opcode::maximum:
    case Opcode::minimum:
    case Opcode::multiply:
    case Opcode::negate:
    case Opcode::not_:
    case Opcode::or_:
    case Opcode::rsqrt:
    case Opcode::select:
    case Opcode::sqrt:
    case Opcode::subtract:
    case Opcode::xor_:
      return true;
    default:
      return false;
  }
}

bool is_cheap(const ir::Computation& branch) {
  return branch.instruction_count() <= kMostOperations &&
         std::all_of(branch.instructions().begin(), branch.instructions().end(),
                     [](const auto& instruction) {
                       return is_cheap(instruction->opcode()) &&
                              instruction->control_predecessors().empty() &&
                              instruction->control_successors().empty();
                     });
}

}  // namespace

// A choice between two ways of computing each element by little work: both, and a select. A branch
// has results of its own, into which it copies what it leaves alone; a select is part of the kernel
// that computes, and may be written over what it was computed from. An update of parameters that is
// left out where a number is no number is so.
Instruction* select_branches(Rewriter& rewriter, Instruction& at) {
  if (at.opcode() != Opcode::conditional || at.called_computations().size() != 2) return nullptr;
  const auto& branches = at.called_computations();
  if (!is_cheap(*branches[0]) || !is_cheap(*branches[1])) return nullptr;
  return all_branches(rewriter, at);
}

}  // namespace plimsoll::passes
