// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "runtime/autograd/rules.h"

namespace plimsoll::autograd {

using ir::Opcode;
using trace::Callee;
using trace::OpAttributes;

namespace {

std::shared_ptr<ir::ScatterDimensions> scatter_form(const ir::GatherDimensions& g) {
  auto s = std::make_shared<ir::ScatterDimensions>();
  s->update_window_dims = g.offset_dims;
  s->inserted_window_dims = g.collapsed_slice_dims;
  s->scatter_dims_to_operand_dims = g.start_index_map;
  s->input_batching_dims = g.operand_batching_dims;
  s->scatter_indices_batching_dims = g.start_indices_batching_dims;
  s->index_vector_dim = g.index_vector_dim;
  return s;
}

std::shared_ptr<ir::GatherDimensions> gather_form(const ir::ScatterDimensions& s) {
  auto g = std::make_shared<ir::GatherDimensions>();
  g->offset_dims = s.update_window_dims;
  g->collapsed_slice_dims = s.inserted_window_dims;
  g->start_index_map = s.scatter_dims_to_operand_dims;
  g->operand_batching_dims = s.input_batching_dims;
  g->start_indices_batching_dims = s.scatter_indices_batching_dims;
  g->index_vector_dim = s.index_vector_dim;
  return g;
}

// gather moves a window that sticks out back inside, scatter skips it: the gradient must go where
// the value came from.
NodeRef indices_inside(const RuleCall& call) {
  Expression& e = call.e;
  const ir::GatherDimensions& g = *call.op.attributes.gather;
  const Node& operand = *call.node.operand(0);
  const NodeRef indices = call.operand(1);
  std::vector<NodeRef> lasts;
  Ints part(indices->dims().begin(), indices->dims().end());
  const bool vectors = g.index_vector_dim < indices->rank;
  if (vectors) part[static_cast<std::size_t>(g.index_vector_dim)] = 1;
  for (const std::int64_t dim : g.start_index_map) {
    const auto i = static_cast<std::size_t>(dim);
    const std::int64_t last = operand.dims()[i] - call.op.attributes.slice_sizes[i];
    lasts.push_back(e.broadcast(e.scalar(indices->dtype, static_cast<double>(last)), part, {}));
  }
  const NodeRef high = lasts.size() == 1 ? lasts[0] : e.concatenate(lasts, g.index_vector_dim);
  return e.op(Opcode::clamp, {e.scalar(indices->dtype, 0), indices, high});
}

}  // namespace

void gather_rule(const RuleCall& call) {
  if (!call.wants(0)) return;
  Expression& e = call.e;
  OpAttributes op;
  op.attributes.scatter = scatter_form(*call.op.attributes.gather);
  op.attributes.indices_are_sorted = call.op.attributes.indices_are_sorted;
  op.attributes.unique_indices = call.op.attributes.unique_indices;
  op.callee = {Callee::Kind::combine, Opcode::add, {}};
  call.give(0, e.op(Opcode::scatter,
                    {e.fill(*call.node.operand(0), 0), indices_inside(call), call.g()}, op));
}

void scatter_rule(const RuleCall& call) {
  if (call.node.operand_count != 3) return call.refuse("of several arrays has no gradient");
  Expression& e = call.e;
  const ir::ScatterDimensions& s = *call.op.attributes.scatter;
  const bool replaces = call.op.callee.kind == Callee::Kind::replace;
  if (!replaces && call.op.callee.combiner != Opcode::add) {
    return call.refuse("has a gradient for sums and replacement only");
  }
  if (replaces && !call.op.attributes.unique_indices) {
    return call.refuse("by replacement has a gradient only with unique_indices");
  }
  const Node& operand = *call.node.operand(0);
  const Node& updates = *call.node.operand(2);
  if (call.wants(0)) {
    if (replaces) {
      OpAttributes op = call.op;
      call.give(0, e.op(Opcode::scatter, {call.g(), call.operand(1), e.fill(updates, 0)}, op));
    } else {
      call.give(0, call.g());
    }
  }
  if (!call.wants(2)) return;
  OpAttributes op;
  op.attributes.gather = gather_form(s);
  op.attributes.indices_are_sorted = call.op.attributes.indices_are_sorted;
  op.attributes.slice_sizes.assign(static_cast<std::size_t>(operand.rank), 1);
  std::size_t next = 0;
  for (std::int64_t i = 0; i < operand.rank; ++i) {
    const auto in = [&](const Ints& list) {
      for (const std::int64_t dim : list) {
        if (dim == i) return true;
      }
      return false;
    };
    if (in(s.inserted_window_dims) || in(s.input_batching_dims)) continue;
    op.attributes.slice_sizes[static_cast<std::size_t>(i)] =
        updates.dims()[static_cast<std::size_t>(s.update_window_dims[next++])];
  }
  // Updates that stick out were skipped: where the update's own window, scattered and gathered
  // again, does not come back, nothing goes back either.
  OpAttributes marks = call.op;
  marks.callee = {Callee::Kind::replace, Opcode::add, {}};
  const NodeRef one = e.fill(updates, 1);
  const NodeRef landed = e.op(Opcode::scatter, {e.fill(operand, 0), call.operand(1), one}, marks);
  const NodeRef masked = e.multiply(call.g(), landed);
  call.give(2, e.op(Opcode::gather, {masked, call.operand(1)}, op));
}

// Sorting the positions along gives the permutation; sorting the gradients by it undoes it.
void sort_rule(const RuleCall& call) {
  Expression& e = call.e;
  const Node& key = *call.node.operand(0);
  const std::int64_t dim = call.op.attributes.dimensions[0];
  const int count = static_cast<int>(call.node.operand_count);
  std::vector<NodeRef> operands;
  for (int i = 0; i < count; ++i) operands.push_back(call.operand(i));
  operands.push_back(e.iota(ir::DType::s32, key.dims(), dim));
  const NodeRef permutation = e.element(e.op(Opcode::sort, operands, call.op), count);

  OpAttributes ascending;
  ascending.attributes.dimensions = {dim};
  ascending.attributes.is_stable = true;
  ascending.callee = {Callee::Kind::order, Opcode::add, ir::ComparisonDirection::lt};
  for (int i = 0; i < count; ++i) {
    const NodeRef& g = call.gradients[static_cast<std::size_t>(i)];
    if (!call.wants(i) || !g) continue;
    call.give(i, e.element(e.op(Opcode::sort, {permutation, g}, ascending), 1));
  }
}

}  // namespace plimsoll::autograd
