// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/shapes/builder.h"
#include "runtime/passes/expand/expansions.h"

namespace plimsoll::passes {
namespace {

using ir::Attributes;
using ir::Computation;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

// Whether the first of two elements goes before the second; the places that go with them say
// nothing. Floats in total order, so that NaNs have a place, too.
Computation* comparator(ir::Module& module, DType dtype, bool largest) {
  Computation* const made = module.add_computation("topk.compare");
  Instruction* const a = made->add_parameter(0, Shape(dtype, {}));
  Instruction* const b = made->add_parameter(1, Shape(dtype, {}));
  (void)made->add_parameter(2, Shape(DType::s32, {}));
  (void)made->add_parameter(3, Shape(DType::s32, {}));
  Attributes attributes;
  attributes.comparison_direction =
      largest ? ir::ComparisonDirection::gt : ir::ComparisonDirection::lt;
  if (ir::is_floating(dtype)) attributes.comparison_order = ir::ComparisonOrder::total;
  made->set_root(
      made->add(Opcode::compare, Shape(DType::pred, {}), {a, b}, {}, std::move(attributes)));
  return made;
}

}  // namespace

// A stable sort of the last dim, so that of equal elements the first stays first.
Expansion expand_topk(Instruction& topk) {
  Computation& computation = *topk.parent();
  Instruction* const from = topk.operand(0);
  const Shape& shape = from->shape();
  const int last = shape.rank() - 1;
  const auto build = [&](Opcode opcode, std::vector<Instruction*> operands, Attributes attributes,
                         std::vector<Computation*> called, const Shape* given) {
    return ir::build(computation, opcode, std::move(operands), std::move(attributes),
                     std::move(called), given);
  };
  const Shape places(DType::s32, shape.dims());
  Attributes along;
  along.dimensions = {last};
  PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const iota, build(Opcode::iota, {}, along, {}, &places));
  Attributes stable = along;
  stable.is_stable = true;
  const bool largest = topk.attributes().find_extra("largest") != "false";
  Computation* const compare = comparator(*computation.module(), shape.dtype(), largest);
  PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const sorted,
                            build(Opcode::sort, {from, iota}, stable, {compare}, nullptr));
  std::vector<Instruction*> results;
  for (int i = 0; i < 2; ++i) {
    Attributes slice;
    const Shape& kept = topk.shape().elements()[at(i)];
    slice.slice_starts.assign(at(shape.rank()), 0);
    slice.slice_limits = kept.dims().to_vector();
    slice.slice_strides.assign(at(shape.rank()), 1);
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const one,
                              build(Opcode::slice, {computation.add_get_tuple_element(sorted, i)},
                                    std::move(slice), {}, nullptr));
    results.push_back(one);
  }
  return computation.add_tuple(std::move(results));
}

}  // namespace plimsoll::passes
