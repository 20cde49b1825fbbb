// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/all_branches.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/base/index.h"

namespace plimsoll::passes {

using ir::Attributes;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

namespace {

// `yes` where `condition` holds, else `no`, array by array. Null for what is no array.
Instruction* selected(Rewriter& rewrite, Instruction* condition, Instruction* yes,
                      Instruction* no) {
  const Shape& shape = yes->shape();
  if (shape.is_array()) {
    if (shape.is_scalar()) return rewrite.add(Opcode::select, shape, {condition, yes, no});
    Instruction* const spread = rewrite.add(Opcode::broadcast, Shape(ir::DType::pred, shape.dims()),
                                            {condition}, Attributes());
    return rewrite.add(Opcode::select, shape, {spread, yes, no});
  }
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

}  // namespace

Instruction* element(Rewriter& rewrite, Instruction& tuple, std::size_t i) {
  if (tuple.opcode() == Opcode::tuple) return tuple.operand(static_cast<int>(i));
  Attributes attributes;
  attributes.tuple_index = static_cast<std::int64_t>(i);
  return rewrite.add(Opcode::get_tuple_element, tuple.shape().elements()[i], {&tuple},
                     std::move(attributes));
}

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

}  // namespace plimsoll::passes
