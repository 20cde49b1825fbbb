// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "runtime/autograd/rules.h"
#include "runtime/base/index.h"

namespace plimsoll::autograd {

using Direction = ir::ComparisonDirection;
using ir::Opcode;
using trace::Callee;
using trace::OpAttributes;

namespace {

Ints all_dims(int rank) {
  Ints dims(at(rank));
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

// Element `offset` of every window of `x`, which is padded with `filling`: an array of the windows'
// dims.
NodeRef window_elements(Expression& e, const NodeRef& x, double filling, const Node& windows,
                        const std::vector<ir::WindowDimension>& window, const Ints& offset) {
  OpAttributes pad;
  Ints starts, limits, strides;
  for (std::size_t i = 0; i < window.size(); ++i) {
    const ir::WindowDimension& w = window[i];
    pad.attributes.padding.push_back({w.padding_low, w.padding_high, w.base_dilation - 1});
    starts.push_back(offset[i] * w.window_dilation);
    limits.push_back(starts[i] + (windows.dims()[i] - 1) * w.stride + 1);
    strides.push_back(w.stride);
  }
  const NodeRef padded = e.op(Opcode::pad, {x, e.scalar(x->dtype, filling)}, pad);
  return e.slice(padded, starts, limits, strides);
}

bool next_offset(const std::vector<ir::WindowDimension>& window, Ints& offset) {
  for (std::size_t i = window.size(); i-- > 0;) {
    if (++offset[i] < window[i].size) return true;
    offset[i] = 0;
  }
  return false;
}

// The gradient of a maximum or minimum over windows with dilations, which select-and-scatter does
// not know: offset by offset, what the first extremum gets is put back where it came from.
NodeRef dilated_extremum_gradient(const RuleCall& call, Opcode extremum) {
  Expression& e = call.e;
  const auto& window = call.op.attributes.window;
  const Node& operand = *call.node.operand(0);
  const NodeRef zero = e.fill(call.node, 0);
  NodeRef taken, sum;
  Ints offset(window.size(), 0);
  do {
    const NodeRef value =
        window_elements(e, call.operand(0), identity(extremum), call.node, window, offset);
    NodeRef hit = e.compare(Direction::eq, value, call.result());
    const NodeRef seen = taken ? e.op(Opcode::or_, {taken, hit}) : hit;
    if (taken) hit = e.op(Opcode::and_, {hit, e.op(Opcode::not_, {taken})});
    taken = seen;
    std::vector<ir::PaddingDimension> spread;
    for (std::size_t i = 0; i < window.size(); ++i) {
      const ir::WindowDimension& w = window[i];
      const std::int64_t padded =
          (operand.dims()[i] - 1) * w.base_dilation + 1 + w.padding_low + w.padding_high;
      const std::int64_t low = offset[i] * w.window_dilation;
      const std::int64_t covered = (call.node.dims()[i] - 1) * w.stride + 1;
      spread.push_back({low, padded - low - covered, w.stride - 1});
    }
    const NodeRef part = e.pad(e.select(hit, call.g(), zero), std::move(spread));
    sum = sum ? e.add(sum, part) : part;
  } while (e.ok() && next_offset(window, offset));
  std::vector<ir::PaddingDimension> crop;
  Ints starts, limits, strides;
  for (std::size_t i = 0; i < window.size(); ++i) {
    crop.push_back({-window[i].padding_low, -window[i].padding_high, 0});
    starts.push_back(0);
    limits.push_back((operand.dims()[i] - 1) * window[i].base_dilation + 1);
    strides.push_back(window[i].base_dilation);
  }
  return e.slice(e.pad(sum, std::move(crop)), starts, limits, strides);
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
  if (call.node.byte_size() == 0 || call.node.operand(0)->byte_size() == 0) return;
  for (const ir::WindowDimension& w : op.attributes.window) {
    if (w.base_dilation != 1 || w.window_dilation != 1) {
      return call.give(0, dilated_extremum_gradient(call, combiner));
    }
  }
  op.callee = {Callee::Kind::select_combine, Opcode::add,
               combiner == Opcode::maximum ? Direction::ge : Direction::le};
  call.give(0, call.e.op(Opcode::select_and_scatter,
                         {call.operand(0), call.g(), call.e.scalar(call.node.dtype, 0)}, op));
}

// Each window takes the gradient of the element it selected: the first extremum, found by walking
// through the windows' offsets.
void select_and_scatter_rule(const RuleCall& call) {
  Expression& e = call.e;
  const Direction direction = call.op.callee.direction;
  const auto& window = call.op.attributes.window;
  if (call.op.callee.combiner != Opcode::add ||
      (direction != Direction::ge && direction != Direction::le)) {
    return call.refuse("has a gradient only where sums go to the first extremum");
  }
  if (call.wants(2)) call.give(2, e.reduce(call.g(), Opcode::add, all_dims(call.node.rank)));
  if (!call.wants(1)) return;
  const Node& source = *call.node.operand(1);
  if (source.byte_size() == 0) return;
  const NodeRef x = call.operand(0);
  const Opcode extremum = direction == Direction::ge ? Opcode::maximum : Opcode::minimum;
  OpAttributes pool;
  pool.callee = {Callee::Kind::combine, extremum, {}};
  pool.attributes.window = window;
  const NodeRef best =
      e.op(Opcode::reduce_window, {x, e.scalar(x->dtype, identity(extremum))}, pool);
  NodeRef gradient = e.fill(source, 0);
  NodeRef taken;
  Ints offset(window.size(), 0);
  do {
    const NodeRef value = window_elements(e, x, identity(extremum), source, window, offset);
    const NodeRef share = window_elements(e, call.g(), 0, source, window, offset);
    NodeRef hit = e.compare(Direction::eq, value, best);
    const NodeRef seen = taken ? e.op(Opcode::or_, {taken, hit}) : hit;
    if (taken) hit = e.op(Opcode::and_, {hit, e.op(Opcode::not_, {taken})});
    gradient = e.select(hit, share, gradient);
    taken = seen;
  } while (e.ok() && next_offset(window, offset));
  call.give(1, gradient);
}

}  // namespace plimsoll::autograd
