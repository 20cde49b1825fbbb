// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "runtime/autograd/rules.h"

namespace plimsoll::autograd {

using Direction = ir::ComparisonDirection;
using ir::Opcode;
using trace::Callee;
using trace::OpAttributes;

namespace {

Ints all_dims(int rank) {
  Ints dims(static_cast<std::size_t>(rank));
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

// A reduction's result beside its operand again.
struct Spread {
  std::span<const std::int64_t> dims;
  Ints kept;

  explicit Spread(const RuleCall& call) : dims(call.node.operand(0)->dims()) {
    const auto& reduced = call.op.attributes.dimensions;
    for (int i = 0; i < call.node.operand(0)->rank; ++i) {
      if (std::find(reduced.begin(), reduced.end(), i) == reduced.end()) kept.push_back(i);
    }
  }
  NodeRef operator()(Expression& e, const NodeRef& x) const {
    if (!x) return {};
    if (dims.size() == kept.size()) return x;
    return e.broadcast(x, dims, kept);
  }
};

// Equal elements that share the extremum share the gradient evenly.
void extremum_rule(const RuleCall& call, const Spread& spread) {
  Expression& e = call.e;
  const NodeRef x = call.operand(0);
  const NodeRef hit = e.compare(Direction::eq, x, spread(e, call.result()));
  const NodeRef weight = e.convert(hit, x->dtype);
  const NodeRef count = e.reduce(weight, Opcode::add, call.op.attributes.dimensions);
  const NodeRef share = spread(e, e.divide(call.g(), count));
  call.give(0, e.select(hit, share, e.fill(*x.get(), 0)));
}

// The product of the others: result / x, made safe for zeros. With one zero only that element has
// a gradient, with more none has.
void product_rule(const RuleCall& call, const Spread& spread) {
  Expression& e = call.e;
  const NodeRef x = call.operand(0);
  const auto& dims = call.op.attributes.dimensions;
  const NodeRef is_zero = e.compare(Direction::eq, x, e.scalar(x->dtype, 0));
  const NodeRef safe = e.select(is_zero, e.fill(*x.get(), 1), x);
  const NodeRef product =
      e.multiply(spread(e, e.reduce(safe, Opcode::multiply, dims)), spread(e, call.g()));
  const NodeRef zeros = spread(e, e.reduce(e.convert(is_zero, x->dtype), Opcode::add, dims));
  const NodeRef none = e.compare(Direction::eq, zeros, e.scalar(x->dtype, 0));
  const NodeRef one = e.compare(Direction::eq, zeros, e.scalar(x->dtype, 1));
  const NodeRef counts = e.op(Opcode::or_, {none, e.op(Opcode::and_, {one, is_zero})});
  call.give(0, e.select(counts, e.divide(product, safe), e.fill(*x.get(), 0)));
}

}  // namespace

void reduce_rule(const RuleCall& call) {
  Expression& e = call.e;
  if (call.node.operand_count != 2) return call.refuse("of several operands has no gradient");
  const Opcode combiner = call.op.callee.combiner;
  const Spread spread(call);
  if (call.wants(1)) {
    if (combiner != Opcode::add) return call.refuse("has no gradient for its initial value");
    call.give(1, e.reduce(call.g(), Opcode::add, all_dims(call.node.rank)));
  }
  if (!call.wants(0)) return;
  switch (combiner) {
    case Opcode::add:
      return call.give(0, spread(e, call.g()));
    case Opcode::maximum:
    case Opcode::minimum:
      return extremum_rule(call, spread);
    case Opcode::multiply:
      return product_rule(call, spread);
    default:
      return call.refuse("has no gradient with this combiner");
  }
}

namespace {

// Each input element gets the sum of the gradients of the windows that cover it: a sum over windows
// of the gradient spread by the strides.
NodeRef window_sum_gradient(const RuleCall& call) {
  const Node& operand = *call.node.operand(0);
  OpAttributes op;
  op.callee = {Callee::Kind::combine, Opcode::add, {}};
  for (std::size_t i = 0; i < call.op.attributes.window.size(); ++i) {
    const ir::WindowDimension& w = call.op.attributes.window[i];
    const std::int64_t dilated = (w.size - 1) * w.window_dilation + 1;
    const std::int64_t in = (operand.dims()[i] - 1) * w.base_dilation + 1;
    const std::int64_t out = (call.node.dims()[i] - 1) * w.stride + 1;
    ir::WindowDimension back;
    back.size = w.size;
    back.stride = w.base_dilation;
    back.base_dilation = w.stride;
    back.window_dilation = w.window_dilation;
    back.padding_low = dilated - 1 - w.padding_low;
    back.padding_high = in + dilated - 1 - out - back.padding_low;
    op.attributes.window.push_back(back);
  }
  return call.e.op(Opcode::reduce_window, {call.g(), call.e.scalar(operand.dtype, 0)}, op);
}

}  // namespace

void reduce_window_rule(const RuleCall& call) {
  if (call.node.operand_count != 2) return call.refuse("of several operands has no gradient");
  if (call.wants(1)) return call.refuse("has no gradient for its initial value");
  if (!call.wants(0)) return;
  const Opcode combiner = call.op.callee.combiner;
  if (combiner == Opcode::add) return call.give(0, window_sum_gradient(call));
  if (combiner != Opcode::maximum && combiner != Opcode::minimum) {
    return call.refuse("has no gradient with this combiner");
  }
  OpAttributes op;
  op.attributes.window = call.op.attributes.window;
  for (const ir::WindowDimension& w : op.attributes.window) {
    if (w.base_dilation != 1 || w.window_dilation != 1) {
      return call.refuse("of a dilated maximum or minimum has no gradient");
    }
  }
  op.callee = {Callee::Kind::select_combine, Opcode::add,
               combiner == Opcode::maximum ? Direction::ge : Direction::le};
  call.give(0, call.e.op(Opcode::select_and_scatter,
                         {call.operand(0), call.g(), call.e.scalar(call.node.dtype, 0)}, op));
}

}  // namespace plimsoll::autograd
