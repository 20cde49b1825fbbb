// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/shapes/builder.h"
#include "runtime/passes/expand/expansions.h"

namespace plimsoll::passes {
namespace {

using ir::Attributes;
using ir::Computation;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

// Whether the value counts along the last dim, in s32.
bool counts_along_last(const Instruction& value) {
  const int last = value.shape().rank() - 1;
  if (value.shape().dtype() != ir::DType::s32) return false;
  if (value.opcode() == Opcode::iota) return value.attributes().dimensions[0] == last;
  const bool is_spread = value.opcode() == Opcode::broadcast &&
                         value.operand(0)->opcode() == Opcode::iota &&
                         value.operand(0)->shape().rank() == 1;
  return is_spread && value.attributes().dimensions[0] == last;
}

// How many a slice takes from the front of the last dim, all of the others; 0 for other slices.
std::int64_t taken_from_front(const Instruction& slice) {
  if (slice.opcode() != Opcode::slice) return 0;
  const Attributes& attributes = slice.attributes();
  const Shape& from = slice.operand(0)->shape();
  for (int d = 0; d < from.rank(); ++d) {
    const bool is_plain =
        attributes.slice_starts[at(d)] == 0 &&
        (attributes.slice_strides.empty() || attributes.slice_strides[at(d)] == 1);
    if (!is_plain || (d + 1 < from.rank() && slice.shape().dim(d) != from.dim(d))) return 0;
  }
  return slice.shape().dim(from.rank() - 1);
}

// The slices that are all that is used of a stable sort with places; none where more is used.
std::vector<Instruction*> slices_of(const Instruction& sort) {
  std::vector<Instruction*> slices;
  for (const Instruction* part : sort.users()) {
    if (part->opcode() != Opcode::get_tuple_element || part->is_root()) return {};
    for (Instruction* slice : part->users()) {
      if (taken_from_front(*slice) == 0) return {};
      slices.push_back(slice);
    }
  }
  return slices;
}

}  // namespace

// As `chlo.top_k` comes out of its conversion, and as who knows no topk writes one.
Result<bool> recognize_topk(Instruction& sort) {
  const Shape& from = sort.operand(0)->shape();
  const bool is_along_last = from.rank() > 0 && sort.attributes().dimensions[0] == from.rank() - 1;
  if (sort.operand_count() != 2 || !is_along_last || sort.is_root() ||
      !counts_along_last(*sort.operand(1)) || !is_total_order_of_values(*sort.to_apply())) {
    return false;
  }
  const std::vector<Instruction*> slices = slices_of(sort);
  std::int64_t count = 0;
  for (const Instruction* slice : slices) count = std::max(count, taken_from_front(*slice));
  if (slices.empty() || !is_worth_top_k(from, count)) return false;

  Computation& computation = *sort.parent();
  Instruction* root = computation.root();  // which else is what was added last
  Attributes attributes;
  const bool is_largest =
      sort.to_apply()->root()->attributes().comparison_direction == ir::ComparisonDirection::gt;
  attributes.extra = {{"k", std::to_string(count)}, {"largest", is_largest ? "true" : "false"}};
  PLIMSOLL_ASSIGN_OR_RETURN(
      Instruction* const first,
      ir::build(computation, Opcode::topk, {sort.operand(0)}, std::move(attributes), {}));
  const std::vector<Instruction*> parts(sort.users().begin(), sort.users().end());
  for (Instruction* slice : slices) {
    const Instruction* const part = slice->operand(0);
    Instruction* made =
        computation.add_get_tuple_element(first, static_cast<int>(part->attributes().tuple_index));
    if (taken_from_front(*slice) < count) {
      PLIMSOLL_ASSIGN_OR_RETURN(
          made, ir::build(computation, Opcode::slice, {made}, slice->attributes(), {}));
    }
    slice->replace_all_uses_with(made);
    if (slice == root) root = made;
    computation.set_root(root);
    computation.remove(slice);
  }
  for (Instruction* part : parts) computation.remove(part);
  computation.remove(&sort);
  return true;
}

}  // namespace plimsoll::passes
