// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include "runtime/autograd/rules.h"
#include "runtime/base/index.h"

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

// Per index, the last start at which a window of these sizes lies inside the operand; broadcasts
// against the indices.
NodeRef last_starts(Expression& e, const Node& operand, const NodeRef& indices,
                    const Ints& index_map, std::int64_t index_vector_dim, const Ints& sizes) {
  std::vector<NodeRef> lasts;
  Ints part(indices->dims().begin(), indices->dims().end());
  if (index_vector_dim < indices->rank) part[at(index_vector_dim)] = 1;
  for (const std::int64_t dim : index_map) {
    const auto i = at(dim);
    const auto last = static_cast<double>(operand.dims()[i] - sizes[i]);
    lasts.push_back(e.broadcast(e.scalar(indices->dtype, last), part, {}));
  }
  return lasts.size() == 1 ? lasts[0] : e.concatenate(lasts, index_vector_dim);
}

// gather moves a window that sticks out back inside, scatter skips it: the gradient must go where
// the value came from.
NodeRef indices_inside(const RuleCall& call) {
  Expression& e = call.e;
  const ir::GatherDimensions& g = *call.op.attributes.gather;
  const NodeRef indices = call.operand(1);
  const NodeRef last = last_starts(e, *call.node.operand(0), indices, g.start_index_map,
                                   g.index_vector_dim, call.op.attributes.slice_sizes);
  return e.op(Opcode::clamp, {e.scalar(indices->dtype, 0), indices, last});
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
  op.attributes.slice_sizes.assign(at(operand.rank), 1);
  std::size_t next = 0;
  for (std::int64_t i = 0; i < operand.rank; ++i) {
    const auto in = [&](const Ints& list) {
      for (const std::int64_t dim : list) {
        if (dim == i) return true;
      }
      return false;
    };
    if (in(s.inserted_window_dims) || in(s.input_batching_dims)) continue;
    op.attributes.slice_sizes[at(i)] = updates.dims()[at(s.update_window_dims[next++])];
  }
  const NodeRef gathered = e.op(Opcode::gather, {call.g(), call.operand(1)}, op);
  // Updates that stick out were skipped: nothing goes back to them.
  const NodeRef indices = call.operand(1);
  const NodeRef last = last_starts(e, operand, indices, s.scatter_dims_to_operand_dims,
                                   s.index_vector_dim, op.attributes.slice_sizes);
  NodeRef inside = e.op(
      Opcode::and_, {e.compare(ir::ComparisonDirection::ge, indices, e.scalar(indices->dtype, 0)),
                     e.compare(ir::ComparisonDirection::le, indices, last)});
  if (s.index_vector_dim < indices->rank) {
    inside = e.reduce(inside, Opcode::and_, {s.index_vector_dim});
  }
  Ints batch;
  for (std::int64_t i = 0; i < updates.rank; ++i) {
    if (std::find(s.update_window_dims.begin(), s.update_window_dims.end(), i) ==
        s.update_window_dims.end()) {
      batch.push_back(i);
    }
  }
  inside = e.broadcast(inside, updates.dims(), batch);
  call.give(2, e.select(inside, gathered, e.fill(updates, 0)));
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
    const NodeRef& g = call.gradients[at(i)];
    if (!call.wants(i) || !g) continue;
    call.give(i, e.element(e.op(Opcode::sort, {permutation, g}, ascending), 1));
  }
}

}  // namespace plimsoll::autograd
