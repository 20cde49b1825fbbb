// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/passes/all_branches.h"
#include "runtime/passes/expand/expansions.h"
#include "runtime/passes/rewriter.h"

namespace plimsoll::passes {
namespace {

using ir::Attributes;
using ir::Computation;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

bool applies_a_computation(Opcode opcode) {
  switch (opcode) {
    case Opcode::map:
    case Opcode::reduce:
    case Opcode::reduce_window:
    case Opcode::sort:
    case Opcode::scatter:
    case Opcode::select_and_scatter:
    case Opcode::all_reduce:
    case Opcode::all_reduce_start:
    case Opcode::reduce_scatter:
      return true;
    default:
      return false;
  }
}

bool is_flat(const Computation& computation) {
  for (const auto& instruction : computation.instructions()) {
    switch (instruction->opcode()) {
      case Opcode::call:
      case Opcode::fusion:
      case Opcode::conditional:
        return false;
      default:
        break;
    }
  }
  return true;
}

}  // namespace

Status expand_applied(ir::Module& module) {
  std::vector<Computation*> applied;
  std::unordered_set<const Computation*> seen;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      if (!applies_a_computation(instruction->opcode())) continue;
      for (Computation* const called : instruction->called_computations()) {
        if (seen.insert(called).second && !is_flat(*called)) applied.push_back(called);
      }
    }
  }
  // Calls of calls may grow exponentially; what is over stays as it is, which no kernel takes.
  std::int64_t budget = 16 * module.instruction_count() + 10'000;
  const auto rule = [&](Rewriter& rewrite, Instruction& at) -> Instruction* {
    std::int64_t count = 0;
    switch (at.opcode()) {
      case Opcode::get_tuple_element: {
        Instruction& tuple = *at.operand(0);
        return tuple.opcode() == Opcode::tuple
                   ? element(rewrite, tuple, plimsoll::at(at.attributes().tuple_index))
                   : nullptr;
      }
      case Opcode::call:
      case Opcode::fusion:
      case Opcode::conditional:
        for (const Computation* callee : at.called_computations()) {
          count += callee->instruction_count();
        }
        if (count > budget) return nullptr;
        budget -= count;
        return at.opcode() == Opcode::conditional ? all_branches(rewrite, at)
                                                  : rewrite.add_body(*at.to_apply(), at.operands());
      default:
        return nullptr;
    }
  };
  for (Computation* const computation : applied) {
    // A sweep goes one call deep, and the last takes tuples apart.
    constexpr int kMostSweeps = 64;
    for (int i = 0; i < kMostSweeps; ++i) {
      PLIMSOLL_ASSIGN_OR_RETURN(const bool changed, Rewriter(*computation).sweep(rule));
      if (!changed) break;
    }
  }
  if (!applied.empty()) (void)module.remove_unreachable();
  return ok_status();
}

}  // namespace plimsoll::passes
