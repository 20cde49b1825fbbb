// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
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

Instruction* element(Rewriter& rewrite, Instruction& tuple, std::size_t i) {
  if (tuple.opcode() == Opcode::tuple) return tuple.operand(static_cast<int>(i));
  Attributes attributes;
  attributes.tuple_index = static_cast<std::int64_t>(i);
  return rewrite.add(Opcode::get_tuple_element, tuple.shape().elements()[i], {&tuple},
                     std::move(attributes));
}

// `yes` where `condition` holds, else `no`, array by array. Null for what is no array.
Instruction* selected(Rewriter& rewrite, Instruction* condition, Instruction* yes,
                      Instruction* no) {
  const Shape& shape = yes->shape();
  if (shape.is_array()) return rewrite.add(Opcode::select, shape, {condition, yes, no});
  if (!shape.is_tuple()) return nullptr;
  std::vector<Instruction*> elements;
  for (std::size_t i = 0; i < shape.elements().size(); ++i) {
    Instruction* const one =
        selected(rewrite, condition, element(rewrite, *yes, i), element(rewrite, *no, i));
    if (one == nullptr) return nullptr;
    elements.push_back(one);
  }
  return rewrite.add(Opcode::tuple, shape, std::move(elements));
}

bool has_token(const Shape& shape) {
  if (!shape.is_tuple()) return !shape.is_array();
  for (const Shape& one : shape.elements()) {
    if (has_token(one)) return true;
  }
  return false;
}

// Every branch, and the one that counts selected. An index out of range means the last.
Instruction* all_branches(Rewriter& rewrite, Instruction& conditional) {
  Instruction* const which = conditional.operand(0);
  const auto& branches = conditional.called_computations();
  if (has_token(conditional.shape()) || !which->shape().is_scalar()) return nullptr;
  std::vector<Instruction*> results;
  for (std::size_t i = 0; i < branches.size(); ++i) {
    results.push_back(
        rewrite.add_body(*branches[i], {conditional.operand(static_cast<int>(i) + 1)}));
  }
  if (which->shape().dtype() == ir::DType::pred) {
    return selected(rewrite, which, results[0], results[1]);
  }
  Instruction* result = results.back();
  for (std::size_t i = results.size() - 1; i-- > 0;) {
    ir::Literal number(Shape(which->shape().dtype(), {}));
    number.set(0, static_cast<double>(i));
    Attributes equal;
    equal.comparison_direction = ir::ComparisonDirection::eq;
    Instruction* const is_this =
        rewrite.add(Opcode::compare, Shape(ir::DType::pred, {}),
                    {which, rewrite.add_constant(std::move(number))}, std::move(equal));
    result = selected(rewrite, is_this, results[i], result);
  }
  return result;
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
