// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/fusions/comparator.h"
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

// A stable sort of the last dim, so that of equal elements the first stays first, of which the
// result has the first elements and their places.
Expansion sorted_first(Instruction& topk, Computation* compare) {
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

// Whether a computation of two values, and perhaps their places, has the order of a sort with
// places.
bool orders_places(const Computation& computation, DType dtype) {
  const auto& parameters = computation.parameters();
  if (parameters.size() != 4 || computation.root()->shape() != Shape(DType::pred, {})) return false;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!(parameters[i]->shape() == Shape(i < 2 ? dtype : DType::s32, {}))) return false;
  }
  return true;
}

bool is_smaller_first(const Computation& computation) {
  const Instruction& root = *computation.root();
  const auto direction = root.attributes().comparison_direction;
  return root.opcode() == Opcode::compare &&
         (direction == ir::ComparisonDirection::lt || direction == ir::ComparisonDirection::le);
}

// XLA's custom call.
Expansion expand_call(Instruction& call, bool keeps) {
  const auto wrong = [&](std::string_view what) {
    return invalid_argument("'" + call.name() + "': the custom call 'TopK' " + std::string(what));
  };
  if (call.operand_count() != 1 || !call.operand(0)->shape().is_array() ||
      !call.shape().is_tuple() || call.shape().elements().size() != 2) {
    return wrong("takes an array and gives values and places");
  }
  const Shape& from = call.operand(0)->shape();
  const Shape &values = call.shape().elements()[0], &places = call.shape().elements()[1];
  const int last = from.rank() - 1;
  bool fits = last >= 0 && values.is_array() && places.is_array() &&
              values.dtype() == from.dtype() && places.dtype() == DType::s32 &&
              values.dims() == places.dims() && values.rank() == from.rank();
  for (int i = 0; fits && i <= last; ++i) {
    fits = i == last ? values.dim(i) <= from.dim(i) : values.dim(i) == from.dim(i);
  }
  if (!fits) {
    return wrong("of " + from.to_string() + " can't give " + call.shape().to_string());
  }
  const auto& called = call.called_computations();
  if (called.size() == 1 && orders_places(*called[0], from.dtype()) &&
      !is_total_order_of_values(*called[0])) {
    return sorted_first(call, called[0]);
  }
  const bool smallest = called.size() == 1 && is_smaller_first(*called[0]);
  if (keeps && is_worth_top_k(from, values.dim(last))) {
    Attributes attributes;
    attributes.extra = {{"k", std::to_string(values.dim(last))},
                        {"largest", smallest ? "false" : "true"}};
    return ir::build(*call.parent(), Opcode::topk, {call.operand(0)}, std::move(attributes), {});
  }
  return sorted_first(call, comparator(*call.parent()->module(), from.dtype(), !smallest));
}

}  // namespace

// As `comparator` above has it.
bool is_total_order_of_values(const Computation& computation) {
  const auto order = ir::order_of_numbers(computation);
  return order.has_value() && order->is_total() && order->key == 0 &&
         order->of->opcode() == Opcode::parameter &&
         (order->direction == ir::ComparisonDirection::lt ||
          order->direction == ir::ComparisonDirection::gt) &&
         computation.root()->operand(0)->attributes().parameter_number == 0;
}

// Sorting all would take longer, and its results several times the memory. Narrow types are
// computed with as others.
bool is_worth_top_k(const Shape& from, std::int64_t count) {
  constexpr std::int64_t kLeastPart = 4;
  const std::int64_t length = from.dim(from.rank() - 1);
  return length <= std::numeric_limits<std::int32_t>::max() && kLeastPart * count <= length &&
         !ir::is_narrow(from.dtype());
}

bool is_topk_call(const Instruction& instruction) {
  return instruction.opcode() == Opcode::custom_call &&
         instruction.attributes().custom_call_target == "TopK";
}

Expansion expand_topk(Instruction& topk, bool keeps) {
  if (is_topk_call(topk)) return expand_call(topk, keeps);
  const bool largest = topk.attributes().find_extra("largest") != "false";
  const Shape& kept = topk.shape().elements()[0];
  if (keeps && is_worth_top_k(topk.operand(0)->shape(), kept.dim(kept.rank() - 1))) return nullptr;
  return sorted_first(
      topk, comparator(*topk.parent()->module(), topk.operand(0)->shape().dtype(), largest));
}

}  // namespace plimsoll::passes
