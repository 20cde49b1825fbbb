// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include "runtime/autograd/rules.h"
#include "runtime/base/index.h"

namespace plimsoll::autograd {

using ir::ConvolutionDimensions;
using ir::Opcode;
using trace::OpAttributes;

namespace {

Ints free_dims(int rank, const Ints& contracting, const Ints& batch) {
  Ints dims;
  for (std::int64_t i = 0; i < rank; ++i) {
    const auto in = [&](const Ints& list) {
      return std::find(list.begin(), list.end(), i) != list.end();
    };
    if (!in(contracting) && !in(batch)) dims.push_back(i);
  }
  return dims;
}

Ints range(std::size_t first, std::size_t count) {
  Ints dims;
  for (std::size_t i = 0; i < count; ++i) dims.push_back(static_cast<std::int64_t>(first + i));
  return dims;
}

// The gradient of one side: the other side's free dims of `g` against the other operand. The result
// is [batch, mine free, contracting in the order of the other operand's dims]; then it is put in
// the order of my dims.
NodeRef dot_side(const RuleCall& call, int side) {
  Expression& e = call.e;
  const ir::DotDimensions& d = *call.op.attributes.dot;
  const bool left = side == 0;
  const Ints& my_contracting = left ? d.lhs_contracting : d.rhs_contracting;
  const Ints& my_batch = left ? d.lhs_batch : d.rhs_batch;
  const Ints& other_contracting = left ? d.rhs_contracting : d.lhs_contracting;
  const Ints& other_batch = left ? d.rhs_batch : d.lhs_batch;
  const Node& mine = *call.node.operand(side);
  const Node& other = *call.node.operand(1 - side);
  const Ints my_free = free_dims(mine.rank, my_contracting, my_batch);
  const Ints other_free = free_dims(other.rank, other_contracting, other_batch);

  // g's dims: batch, lhs free, rhs free.
  const std::size_t batch = my_batch.size();
  auto dot = std::make_shared<ir::DotDimensions>();
  dot->lhs_batch = range(0, batch);
  dot->rhs_batch = other_batch;
  dot->lhs_contracting = range(batch + (left ? my_free.size() : 0), other_free.size());
  dot->rhs_contracting = other_free;
  OpAttributes op;
  op.attributes.dot = std::move(dot);
  const NodeRef g = e.convert(call.g(), mine.dtype);
  const NodeRef product = e.op(Opcode::dot, {g, e.convert(call.operand(1 - side), mine.dtype)}, op);

  // The other operand's contracting dims came out in ascending order.
  Ints ascending(other_contracting);
  std::sort(ascending.begin(), ascending.end());
  Ints origin(my_batch);  // per dim of the product, my dim
  origin.insert(origin.end(), my_free.begin(), my_free.end());
  for (const std::int64_t dim : ascending) {
    const auto at = std::find(other_contracting.begin(), other_contracting.end(), dim);
    origin.push_back(my_contracting[static_cast<std::size_t>(at - other_contracting.begin())]);
  }
  Ints permutation(origin.size());
  for (std::size_t i = 0; i < origin.size(); ++i) {
    permutation[at(origin[i])] = static_cast<std::int64_t>(i);
  }
  return e.transpose(product, permutation);
}

}  // namespace

void dot_rule(const RuleCall& call) {
  if (call.wants(0)) call.give(0, dot_side(call, 0));
  if (call.wants(1)) call.give(1, dot_side(call, 1));
}

namespace {

// Splits dim `from` of size n into (groups, n / groups) and merges the groups, as the major part,
// into dim `into`.
NodeRef move_groups(Expression& e, const NodeRef& x, std::int64_t from, std::int64_t into,
                    std::int64_t groups) {
  if (!x || groups == 1) return x;
  const auto dims = x->dims();
  Ints split;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(dims.size()); ++i) {
    if (i == from) split.push_back(groups);
    split.push_back(i == from ? dims[at(i)] / groups : dims[at(i)]);
  }
  const auto position = [&](std::int64_t dim) { return dim > from ? dim + 1 : dim; };
  Ints permutation, merged;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(dims.size()); ++i) {
    if (i == into) permutation.push_back(from);
    permutation.push_back(i == from ? from + 1 : position(i));
    if (i == from) {
      merged.push_back(dims[at(i)] / groups);
    } else {
      merged.push_back(i == into ? dims[at(i)] * groups : dims[at(i)]);
    }
  }
  return e.reshape(e.transpose(e.reshape(x, split), permutation), merged);
}

struct Extents {
  std::int64_t in, kernel, out;  // dilated
};

Extents dilated_extents(const RuleCall& call, std::size_t i) {
  const ConvolutionDimensions& d = *call.op.attributes.convolution;
  const ir::WindowDimension& w = call.op.attributes.window[i];
  const std::int64_t in = call.node.operand(0)->dims()[at(d.input_spatial[i])];
  const std::int64_t kernel = call.node.operand(1)->dims()[at(d.kernel_spatial[i])];
  const std::int64_t out = call.node.dims()[at(d.output_spatial[i])];
  return {(in - 1) * w.base_dilation + 1, (kernel - 1) * w.window_dilation + 1,
          (out - 1) * w.stride + 1};
}

// Slides the mirrored kernel over the gradient, spread by the strides.
NodeRef input_gradient(const RuleCall& call) {
  Expression& e = call.e;
  const ir::Attributes& a = call.op.attributes;
  const ConvolutionDimensions& d = *a.convolution;
  OpAttributes op;
  for (std::size_t i = 0; i < a.window.size(); ++i) {
    const ir::WindowDimension& w = a.window[i];
    const Extents extents = dilated_extents(call, i);
    ir::WindowDimension back;
    back.size = w.size;
    back.stride = w.base_dilation;
    back.base_dilation = w.stride;
    back.window_dilation = w.window_dilation;
    back.padding_low = extents.kernel - 1 - w.padding_low;
    back.padding_high = extents.in + extents.kernel - 1 - extents.out - back.padding_low;
    back.reversal = !w.reversal;
    op.attributes.window.push_back(back);
  }
  auto dims = std::make_shared<ConvolutionDimensions>();
  dims->input_batch = d.output_batch;
  dims->input_feature = d.output_feature;
  dims->input_spatial = d.output_spatial;
  dims->kernel_input_feature = d.kernel_output_feature;
  dims->kernel_output_feature = d.kernel_input_feature;
  dims->kernel_spatial = d.kernel_spatial;
  dims->output_batch = d.input_batch;
  dims->output_feature = d.input_feature;
  dims->output_spatial = d.input_spatial;
  op.attributes.convolution = std::move(dims);
  const std::int64_t groups = std::max(a.feature_group_count, a.batch_group_count);
  op.attributes.feature_group_count = groups;
  const NodeRef kernel =
      move_groups(e, call.operand(1), d.kernel_output_feature, d.kernel_input_feature, groups);
  const NodeRef result = e.op(Opcode::convolution, {call.g(), kernel}, op);
  // With batch groups, the groups come out as features and belong to the batch.
  return move_groups(e, result, d.input_feature, d.input_batch, a.batch_group_count);
}

// Slides the gradient, dilated by the strides, over the input: batch and feature change roles.
NodeRef kernel_gradient(const RuleCall& call) {
  Expression& e = call.e;
  const ir::Attributes& a = call.op.attributes;
  const ConvolutionDimensions& d = *a.convolution;
  OpAttributes op;
  Ints mirrored;
  for (std::size_t i = 0; i < a.window.size(); ++i) {
    const ir::WindowDimension& w = a.window[i];
    const Extents extents = dilated_extents(call, i);
    ir::WindowDimension back;
    back.size = call.node.dims()[at(d.output_spatial[i])];
    back.stride = w.window_dilation;
    back.base_dilation = w.base_dilation;
    back.window_dilation = w.stride;
    back.padding_low = w.padding_low;
    back.padding_high = extents.out - extents.in + extents.kernel - w.padding_low - 1;
    op.attributes.window.push_back(back);
    if (w.reversal) mirrored.push_back(d.kernel_spatial[i]);
  }
  auto dims = std::make_shared<ConvolutionDimensions>();
  dims->input_batch = d.input_feature;
  dims->input_feature = d.input_batch;
  dims->input_spatial = d.input_spatial;
  dims->kernel_input_feature = d.output_batch;
  dims->kernel_output_feature = d.output_feature;
  dims->kernel_spatial = d.output_spatial;
  dims->output_batch = d.kernel_input_feature;
  dims->output_feature = d.kernel_output_feature;
  dims->output_spatial = d.kernel_spatial;
  op.attributes.convolution = std::move(dims);
  op.attributes.feature_group_count = a.batch_group_count;
  op.attributes.batch_group_count = a.feature_group_count;
  return e.reverse(e.op(Opcode::convolution, {call.operand(0), call.g()}, op), mirrored);
}

}  // namespace

void convolution_rule(const RuleCall& call) {
  if (call.wants(0)) {
    call.give(0, call.e.convert(input_gradient(call), call.node.operand(0)->dtype));
  }
  if (call.wants(1)) {
    call.give(1, call.e.convert(kernel_gradient(call), call.node.operand(1)->dtype));
  }
}

}  // namespace plimsoll::autograd
