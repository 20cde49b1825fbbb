// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "runtime/autograd/rules.h"
#include "runtime/base/index.h"

namespace plimsoll::autograd {

using ir::Opcode;

void broadcast_rule(const RuleCall& call) {
  Expression& e = call.e;
  const Node& operand = *call.node.operand(0);
  const auto& kept = call.op.attributes.dimensions;
  Ints summed;
  for (int i = 0; i < call.node.rank; ++i) {
    if (std::find(kept.begin(), kept.end(), i) == kept.end()) summed.push_back(i);
  }
  NodeRef g = e.reduce(call.g(), Opcode::add, summed);
  // The sum leaves the kept dims in the result's order; dims of size 1 may have been stretched.
  Ints order(kept.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](std::int64_t a, std::int64_t b) { return kept[at(a)] < kept[at(b)]; });
  Ints inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    inverse[at(order[i])] = static_cast<std::int64_t>(i);
  }
  g = e.transpose(g, inverse);
  Ints stretched;
  for (int i = 0; i < operand.rank; ++i) {
    if (g && operand.dims()[at(i)] != g->dims()[at(i)]) stretched.push_back(i);
  }
  g = e.reduce(g, Opcode::add, stretched);
  call.give(0, e.reshape(g, operand.dims()));
}

void reshape_rule(const RuleCall& call) {
  call.give(0, call.e.reshape(call.g(), call.node.operand(0)->dims()));
}

void transpose_rule(const RuleCall& call) {
  const auto& permutation = call.op.attributes.dimensions;
  Ints inverse(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    inverse[at(permutation[i])] = static_cast<std::int64_t>(i);
  }
  call.give(0, call.e.transpose(call.g(), inverse));
}

void slice_rule(const RuleCall& call) {
  const auto& a = call.op.attributes;
  const Node& operand = *call.node.operand(0);
  std::vector<ir::PaddingDimension> padding;
  for (std::size_t i = 0; i < a.slice_starts.size(); ++i) {
    const std::int64_t size = call.node.dims()[i];
    const std::int64_t stride = a.slice_strides.empty() ? 1 : a.slice_strides[i];
    const std::int64_t covered = size == 0 ? 0 : (size - 1) * stride + 1;
    padding.push_back(
        {a.slice_starts[i], operand.dims()[i] - a.slice_starts[i] - covered, stride - 1});
  }
  call.give(0, call.e.pad(call.g(), std::move(padding)));
}

namespace {

std::vector<NodeRef> starts_of(const RuleCall& call, int first) {
  std::vector<NodeRef> starts;
  for (int i = first; i < static_cast<int>(call.node.operand_count); ++i) {
    starts.push_back(call.operand(i));
  }
  return starts;
}

NodeRef update_slice(Expression& e, const NodeRef& array, const NodeRef& update,
                     const std::vector<NodeRef>& starts) {
  std::vector<NodeRef> operands{array, update};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return e.op(Opcode::dynamic_update_slice, operands);
}

}  // namespace

void dynamic_slice_rule(const RuleCall& call) {
  Expression& e = call.e;
  call.give(0, update_slice(e, e.fill(*call.node.operand(0), 0), call.g(), starts_of(call, 1)));
}

void dynamic_update_slice_rule(const RuleCall& call) {
  Expression& e = call.e;
  const Node& update = *call.node.operand(1);
  const std::vector<NodeRef> starts = starts_of(call, 2);
  if (call.wants(0)) call.give(0, update_slice(e, call.g(), e.fill(update, 0), starts));
  if (call.wants(1)) {
    trace::OpAttributes op;
    op.attributes.slice_sizes.assign(update.dims().begin(), update.dims().end());
    std::vector<NodeRef> operands{call.g()};
    operands.insert(operands.end(), starts.begin(), starts.end());
    call.give(1, e.op(Opcode::dynamic_slice, operands, op));
  }
}

void concatenate_rule(const RuleCall& call) {
  const auto dim = at(call.op.attributes.dimensions[0]);
  Ints starts(call.node.rank, 0);
  Ints limits(call.node.dims().begin(), call.node.dims().end());
  const Ints strides(call.node.rank, 1);
  std::int64_t at = 0;
  for (int i = 0; i < static_cast<int>(call.node.operand_count); ++i) {
    starts[dim] = at;
    at += call.node.operand(i)->dims()[dim];
    limits[dim] = at;
    if (call.wants(i)) call.give(i, call.e.slice(call.g(), starts, limits, strides));
  }
}

void pad_rule(const RuleCall& call) {
  Expression& e = call.e;
  const auto& padding = call.op.attributes.padding;
  std::vector<ir::PaddingDimension> cropped;
  Ints starts, limits, strides;
  const Node& operand = *call.node.operand(0);
  for (std::size_t i = 0; i < padding.size(); ++i) {
    cropped.push_back({-padding[i].low, -padding[i].high, 0});
    const std::int64_t stride = padding[i].interior + 1;
    const std::int64_t size = operand.dims()[i];
    starts.push_back(0);
    limits.push_back(size == 0 ? 0 : (size - 1) * stride + 1);
    strides.push_back(stride);
  }
  const NodeRef inner = e.slice(e.pad(call.g(), cropped), starts, limits, strides);
  call.give(0, inner);
  if (call.wants(1)) {
    // All of the gradient but what fell on the operand.
    Ints all(at(call.node.rank));
    std::iota(all.begin(), all.end(), 0);
    call.give(1,
              e.subtract(e.reduce(call.g(), Opcode::add, all), e.reduce(inner, Opcode::add, all)));
  }
}

void reverse_rule(const RuleCall& call) {
  call.give(0, call.e.reverse(call.g(), call.op.attributes.dimensions));
}

}  // namespace plimsoll::autograd
