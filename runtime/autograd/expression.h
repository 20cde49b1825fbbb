// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/trace/record/recorder.h"

namespace plimsoll::autograd {

using trace::Node;
using trace::NodeRef;
using Ints = std::vector<std::int64_t>;

// Records what gradient rules write as formulas. The first failure sticks: from then on everything
// gives an empty reference, and `status` tells.
class Expression {
 public:
  explicit Expression(trace::Recorder& recorder) : recorder_(recorder) {}

  NodeRef op(ir::Opcode opcode, std::initializer_list<NodeRef> operands,
             const trace::OpAttributes& attributes = {}, const ir::Shape* given = nullptr);
  NodeRef op(ir::Opcode opcode, std::span<const NodeRef> operands,
             const trace::OpAttributes& attributes = {}, const ir::Shape* given = nullptr);

  NodeRef ref(Node* node) { return NodeRef(recorder_.recording(), node); }
  NodeRef add(const NodeRef& a, const NodeRef& b) { return op(ir::Opcode::add, {a, b}); }
  NodeRef subtract(const NodeRef& a, const NodeRef& b) { return op(ir::Opcode::subtract, {a, b}); }
  NodeRef multiply(const NodeRef& a, const NodeRef& b) { return op(ir::Opcode::multiply, {a, b}); }
  NodeRef divide(const NodeRef& a, const NodeRef& b) { return op(ir::Opcode::divide, {a, b}); }
  NodeRef negate(const NodeRef& a) { return op(ir::Opcode::negate, {a}); }
  NodeRef scale(const NodeRef& a, double factor) {
    return multiply(a, scalar(a ? a->dtype : ir::DType::f32, factor));
  }
  NodeRef select(const NodeRef& predicate, const NodeRef& a, const NodeRef& b) {
    return op(ir::Opcode::select, {predicate, a, b});
  }
  NodeRef compare(ir::ComparisonDirection direction, const NodeRef& a, const NodeRef& b);

  NodeRef scalar(ir::DType dtype, double value);
  // An array of `like`'s shape.
  NodeRef fill(const Node& like, double value);
  NodeRef broadcast(const NodeRef& x, std::span<const std::int64_t> dims, Ints dimensions);
  NodeRef reshape(const NodeRef& x, std::span<const std::int64_t> dims);
  NodeRef transpose(const NodeRef& x, Ints permutation);
  NodeRef convert(const NodeRef& x, ir::DType dtype);
  NodeRef slice(const NodeRef& x, Ints starts, Ints limits, Ints strides);
  NodeRef pad(const NodeRef& x, std::vector<ir::PaddingDimension> padding);
  NodeRef reverse(const NodeRef& x, Ints dimensions);
  NodeRef concatenate(std::span<const NodeRef> parts, std::int64_t dimension);
  NodeRef iota(ir::DType dtype, std::span<const std::int64_t> dims, std::int64_t dimension);
  // Over `dimensions`; combiner add, multiply, maximum or minimum.
  NodeRef reduce(const NodeRef& x, ir::Opcode combiner, Ints dimensions);
  // Element `index` of a sort's or generator's tuple.
  NodeRef element(const NodeRef& tuple, int index);

  trace::Recorder& recorder() { return recorder_; }
  const Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }
  NodeRef fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
    return {};
  }

 private:
  NodeRef take(Result<NodeRef> result);

  trace::Recorder& recorder_;
  Status status_;
};

// The value that leaves others unchanged under `combiner`.
double identity(ir::Opcode combiner);

}  // namespace plimsoll::autograd
