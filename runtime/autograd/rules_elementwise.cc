// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <numbers>
#include <string>

#include "runtime/autograd/rules.h"

namespace plimsoll::autograd {

using Direction = ir::ComparisonDirection;
using ir::Opcode;

void RuleCall::refuse(std::string_view why) const {
  e.fail(unimplemented(std::string(ir::to_string(node.opcode)) + ": " + std::string(why)));
}

void pass_rule(const RuleCall& call) { call.give(0, call.g()); }

void zero_rule(const RuleCall&) {}

void convert_rule(const RuleCall& call) {
  call.give(0, call.e.convert(call.g(), call.node.operand(0)->dtype));
}

// Written with the result where that is as good as the operand: the result is usually needed by
// the next operation anyway, the operand is not.
void unary_rule(const RuleCall& call) {
  Expression& e = call.e;
  const NodeRef& g = call.g();
  const NodeRef x = call.operand(0);
  const NodeRef y = call.result();
  const auto constant = [&](double value) { return e.scalar(x->dtype, value); };
  NodeRef d;
  switch (call.node.opcode) {
    case Opcode::abs:
      d = e.multiply(g, e.op(Opcode::sign, {x}));
      break;
    case Opcode::negate:
      d = e.negate(g);
      break;
    case Opcode::exponential:
      d = e.multiply(g, y);
      break;
    case Opcode::exponential_minus_one:
      d = e.multiply(g, e.add(y, constant(1)));
      break;
    case Opcode::log:
      d = e.divide(g, x);
      break;
    case Opcode::log_plus_one:
      d = e.divide(g, e.add(x, constant(1)));
      break;
    case Opcode::logistic:
      d = e.multiply(g, e.multiply(y, e.subtract(constant(1), y)));
      break;
    case Opcode::tanh:
      d = e.multiply(g, e.subtract(constant(1), e.multiply(y, y)));
      break;
    case Opcode::sine:
      d = e.multiply(g, e.op(Opcode::cosine, {x}));
      break;
    case Opcode::cosine:
      d = e.negate(e.multiply(g, e.op(Opcode::sine, {x})));
      break;
    case Opcode::tan:
      d = e.multiply(g, e.add(constant(1), e.multiply(y, y)));
      break;
    case Opcode::erf:
      d = e.multiply(g, e.scale(e.op(Opcode::exponential, {e.negate(e.multiply(x, x))}),
                                2 * std::numbers::inv_sqrtpi));
      break;
    case Opcode::sqrt:
      d = e.divide(e.scale(g, 0.5), y);
      break;
    case Opcode::rsqrt:
      d = e.multiply(e.scale(g, -0.5), e.multiply(y, e.multiply(y, y)));
      break;
    case Opcode::cbrt:
      d = e.divide(e.scale(g, 1.0 / 3), e.multiply(y, y));
      break;
    case Opcode::sinh:
      d = e.multiply(g, e.op(Opcode::cosh, {x}));
      break;
    case Opcode::cosh:
      d = e.multiply(g, e.op(Opcode::sinh, {x}));
      break;
    case Opcode::asinh:
      d = e.divide(g, e.op(Opcode::sqrt, {e.add(e.multiply(x, x), constant(1))}));
      break;
    case Opcode::acosh:
      d = e.divide(
          g, e.op(Opcode::sqrt, {e.multiply(e.subtract(x, constant(1)), e.add(x, constant(1)))}));
      break;
    case Opcode::atanh:
      d = e.divide(g, e.multiply(e.subtract(constant(1), x), e.add(constant(1), x)));
      break;
    case Opcode::asin:
      d = e.divide(
          g, e.op(Opcode::sqrt, {e.multiply(e.subtract(constant(1), x), e.add(constant(1), x))}));
      break;
    case Opcode::acos:
      d = e.negate(e.divide(
          g, e.op(Opcode::sqrt, {e.multiply(e.subtract(constant(1), x), e.add(constant(1), x))})));
      break;
    case Opcode::atan:
      d = e.divide(g, e.add(constant(1), e.multiply(x, x)));
      break;
    default:
      return call.refuse("has no gradient");
  }
  call.give(0, std::move(d));
}

namespace {

void maximum_rule(const RuleCall& call, Direction wins) {
  Expression& e = call.e;
  const NodeRef& g = call.g();
  const NodeRef zero = e.fill(*g.get(), 0);
  if (call.wants(0) != call.wants(1)) {
    // One side is data: whether the result passed it says who won, and the operand need not stay.
    // A tie gives zero, as for a rectifier.
    const int side = call.wants(0) ? 0 : 1;
    const NodeRef passed = e.compare(wins, call.result(), call.operand(1 - side));
    return call.give(side, e.select(passed, g, zero));
  }
  const NodeRef first = e.compare(wins == Direction::gt ? Direction::ge : Direction::le,
                                  call.operand(0), call.operand(1));
  call.give(0, e.select(first, g, zero));
  call.give(1, e.select(first, zero, g));
}

void power_rule(const RuleCall& call) {
  Expression& e = call.e;
  const NodeRef& g = call.g();
  const NodeRef a = call.operand(0);
  const NodeRef b = call.operand(1);
  if (call.wants(0)) {
    const NodeRef lower = e.op(Opcode::power, {a, e.subtract(b, e.scalar(b->dtype, 1))});
    // 0 * inf at a = b = 0 is a zero.
    const NodeRef flat = e.compare(Direction::eq, b, e.scalar(b->dtype, 0));
    call.give(0, e.select(flat, e.fill(*g.get(), 0), e.multiply(g, e.multiply(b, lower))));
  }
  if (call.wants(1)) {
    // The limit at a = 0 is zero, which log would miss.
    const NodeRef at_zero = e.compare(Direction::eq, a, e.scalar(a->dtype, 0));
    const NodeRef safe = e.select(at_zero, e.fill(*a.get(), 1), a);
    call.give(1, e.multiply(g, e.multiply(call.result(), e.op(Opcode::log, {safe}))));
  }
}

void remainder_rule(const RuleCall& call) {
  Expression& e = call.e;
  call.give(0, call.g());
  if (!call.wants(1)) return;
  const NodeRef q = e.divide(call.operand(0), call.operand(1));
  const NodeRef negative = e.compare(Direction::lt, q, e.scalar(q->dtype, 0));
  const NodeRef whole = e.select(negative, e.op(Opcode::ceil, {q}), e.op(Opcode::floor, {q}));
  call.give(1, e.negate(e.multiply(call.g(), whole)));
}

}  // namespace

void binary_rule(const RuleCall& call) {
  Expression& e = call.e;
  const NodeRef& g = call.g();
  const NodeRef a = call.operand(0);
  const NodeRef b = call.operand(1);
  switch (call.node.opcode) {
    case Opcode::add:
      call.give(0, g);
      call.give(1, g);
      return;
    case Opcode::subtract:
      call.give(0, g);
      if (call.wants(1)) call.give(1, e.negate(g));
      return;
    case Opcode::multiply:
      if (call.wants(0)) call.give(0, e.multiply(g, b));
      if (call.wants(1)) call.give(1, e.multiply(g, a));
      return;
    case Opcode::divide: {
      const NodeRef scaled = e.divide(g, b);
      call.give(0, scaled);
      if (call.wants(1)) call.give(1, e.negate(e.multiply(scaled, call.result())));
      return;
    }
    case Opcode::remainder:
      return remainder_rule(call);
    case Opcode::power:
      return power_rule(call);
    case Opcode::maximum:
      return maximum_rule(call, Direction::gt);
    case Opcode::minimum:
      return maximum_rule(call, Direction::lt);
    case Opcode::atan2: {
      const NodeRef scaled = e.divide(g, e.add(e.multiply(a, a), e.multiply(b, b)));
      if (call.wants(0)) call.give(0, e.multiply(scaled, b));
      if (call.wants(1)) call.give(1, e.negate(e.multiply(scaled, a)));
      return;
    }
    default:
      return call.refuse("has no gradient");
  }
}

void select_rule(const RuleCall& call) {
  Expression& e = call.e;
  const NodeRef zero = e.fill(*call.g().get(), 0);
  if (call.wants(1)) call.give(1, e.select(call.operand(0), call.g(), zero));
  if (call.wants(2)) call.give(2, e.select(call.operand(0), zero, call.g()));
}

namespace {

// Sums the gradient of a bound that was broadcast from rank 0.
NodeRef fold_scalar(Expression& e, const NodeRef& g, const Node& bound) {
  if (!g || bound.rank == g->rank) return g;
  Ints all;
  for (int i = 0; i < g->rank; ++i) all.push_back(i);
  return e.reduce(g, Opcode::add, all);
}

}  // namespace

void clamp_rule(const RuleCall& call) {
  Expression& e = call.e;
  const NodeRef& g = call.g();
  const NodeRef y = call.result();
  const NodeRef zero = e.fill(*g.get(), 0);
  if (call.wants(1)) {
    const NodeRef inside = e.op(Opcode::and_, {e.compare(Direction::gt, y, call.operand(0)),
                                               e.compare(Direction::lt, y, call.operand(2))});
    call.give(1, e.select(inside, g, zero));
  }
  const NodeRef x = call.operand(1);
  if (call.wants(0)) {
    const NodeRef below = e.compare(Direction::lt, x, call.operand(0));
    call.give(0, fold_scalar(e, e.select(below, g, zero), *call.node.operand(0)));
  }
  if (call.wants(2)) {
    const NodeRef above = e.compare(Direction::gt, x, call.operand(2));
    call.give(2, fold_scalar(e, e.select(above, g, zero), *call.node.operand(2)));
  }
}

}  // namespace plimsoll::autograd
