// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/graphs/tape.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "runtime/ir/shapes/builder.h"

namespace plimsoll::graphs {

using ir::Attributes;
using ir::Dims;
using ir::DType;
using ir::Opcode;
using ir::Shape;
using Node = Tape::Node;

namespace {

// The dimensions of `dims` that are not in `some`.
std::vector<std::int64_t> others(const Dims& dims, const std::vector<std::int64_t>& some) {
  std::vector<std::int64_t> rest;
  for (int d = 0; d < dims.size(); ++d) {
    if (std::find(some.begin(), some.end(), d) == some.end()) rest.push_back(d);
  }
  return rest;
}

}  // namespace

Node Tape::op(Opcode opcode, std::vector<Node> operands, Attributes attributes,
              std::vector<ir::Computation*> called, const Shape* given) {
  auto made = ir::build(*into_, opcode, std::move(operands), std::move(attributes),
                        std::move(called), given);
  if (!made.ok()) throw std::logic_error("graph: " + made.status().to_string());
  return *made;
}

Node Tape::scalar(float value) { return into_->add_constant(ir::Literal::scalar(value)); }

Node Tape::integer(std::int32_t value) { return into_->add_constant(ir::Literal::scalar(value)); }

Node Tape::full(float value, const Dims& dims) {
  if (dims.empty()) return scalar(value);
  const Shape shape(DType::f32, dims);
  return op(Opcode::broadcast, {scalar(value)}, {}, {}, &shape);
}

Node Tape::found(Node x) const {
  const auto it = gradients_.find(x);
  return it == gradients_.end() ? nullptr : it->second;
}

void Tape::accumulate(Node x, Node gradient) {
  auto [it, fresh] = gradients_.emplace(x, gradient);
  if (!fresh) it->second = op(Opcode::add, {it->second, gradient});
}

Node Tape::gradient(Node x) {
  Node g = found(x);
  return g != nullptr ? g : full(0, x->shape().dims());
}

void Tape::backward() {
  std::vector<std::function<void()>> rules = std::move(rules_);
  rules_.clear();
  for (auto rule = rules.rbegin(); rule != rules.rend(); ++rule) (*rule)();
}

Node Tape::add(Node x, Node y) {
  Node z = op(Opcode::add, {x, y});
  record([this, x, y, z] {
    Node g = found(z);
    if (g == nullptr) return;
    accumulate(x, g);
    accumulate(y, g);
  });
  return z;
}

Node Tape::subtract(Node x, Node y) {
  Node z = op(Opcode::subtract, {x, y});
  record([this, x, y, z] {
    Node g = found(z);
    if (g == nullptr) return;
    accumulate(x, g);
    accumulate(y, op(Opcode::negate, {g}));
  });
  return z;
}

Node Tape::multiply(Node x, Node y) {
  Node z = op(Opcode::multiply, {x, y});
  record([this, x, y, z] {
    Node g = found(z);
    if (g == nullptr) return;
    accumulate(x, op(Opcode::multiply, {g, held(y)}));
    accumulate(y, op(Opcode::multiply, {g, held(x)}));
  });
  return z;
}

Node Tape::scale(Node x, float factor) {
  Node z = op(Opcode::multiply, {x, full(factor, x->shape().dims())});
  record([this, x, z, factor] {
    Node g = found(z);
    if (g != nullptr) {
      accumulate(x, op(Opcode::multiply, {g, full(factor, g->shape().dims())}));
    }
  });
  return z;
}

Node Tape::tanh(Node x) {
  Node z = op(Opcode::tanh, {x});
  record([this, x, z] {
    Node g = found(z);
    if (g == nullptr) return;
    Node y = held(z);
    Node slope = op(Opcode::subtract, {full(1, g->shape().dims()), op(Opcode::multiply, {y, y})});
    accumulate(x, op(Opcode::multiply, {g, slope}));
  });
  return z;
}

Node Tape::exponential(Node x) {
  Node z = op(Opcode::exponential, {x});
  record([this, x, z] {
    if (Node g = found(z)) accumulate(x, op(Opcode::multiply, {g, held(z)}));
  });
  return z;
}

Node Tape::rsqrt(Node x) {
  Node z = op(Opcode::rsqrt, {x});
  record([this, x, z] {
    Node g = found(z);
    if (g == nullptr) return;
    Node y = held(z);
    Node cube = op(Opcode::multiply, {y, op(Opcode::multiply, {y, y})});
    Node slope = op(Opcode::multiply, {cube, full(-0.5f, g->shape().dims())});
    accumulate(x, op(Opcode::multiply, {g, slope}));
  });
  return z;
}

Node Tape::reciprocal(Node x) {
  Node z = op(Opcode::divide, {full(1, x->shape().dims()), x});
  record([this, x, z] {
    Node g = found(z);
    if (g == nullptr) return;
    Node y = held(z);
    accumulate(x, op(Opcode::negate, {op(Opcode::multiply, {g, op(Opcode::multiply, {y, y})})}));
  });
  return z;
}

Node Tape::reshape(Node x, const Dims& dims) {
  const Shape shape(DType::f32, dims);
  Node z = op(Opcode::reshape, {x}, {}, {}, &shape);
  record([this, x, z] {
    Node g = found(z);
    if (g == nullptr) return;
    const Shape back(DType::f32, x->shape().dims());
    accumulate(x, op(Opcode::reshape, {g}, {}, {}, &back));
  });
  return z;
}

Node Tape::permuted(Node x, std::vector<std::int64_t> permutation) {
  Attributes attributes;
  attributes.dimensions = std::move(permutation);
  return op(Opcode::transpose, {x}, std::move(attributes));
}

Node Tape::transpose(Node x, std::vector<std::int64_t> permutation) {
  Node z = permuted(x, permutation);
  std::vector<std::int64_t> inverse(permutation.size());
  for (std::size_t d = 0; d < permutation.size(); ++d) {
    inverse[static_cast<std::size_t>(permutation[d])] = static_cast<std::int64_t>(d);
  }
  record([this, x, z, inverse] {
    if (Node g = found(z)) accumulate(x, permuted(g, inverse));
  });
  return z;
}

Node Tape::reduce_add(Node x, std::vector<std::int64_t> dimensions) {
  Attributes attributes;
  attributes.dimensions = std::move(dimensions);
  return op(Opcode::reduce, {x, scalar(0)}, std::move(attributes),
            {ir::scalar_computation(*into_->module(), Opcode::add, DType::f32)});
}

Node Tape::broadcast(Node x, const Dims& dims, std::vector<std::int64_t> dimensions) {
  const Shape shape(DType::f32, dims);
  Attributes attributes;
  attributes.dimensions = dimensions;
  Node z = op(Opcode::broadcast, {x}, std::move(attributes), {}, &shape);
  record([this, x, z, dimensions] {
    if (Node g = found(z)) accumulate(x, reduce_add(g, others(g->shape().dims(), dimensions)));
  });
  return z;
}

Node Tape::sum(Node x, std::vector<std::int64_t> dimensions) {
  Node z = reduce_add(x, dimensions);
  record([this, x, z, dimensions] {
    Node g = found(z);
    if (g == nullptr) return;
    Attributes attributes;
    attributes.dimensions = others(x->shape().dims(), dimensions);
    const Shape shape(DType::f32, x->shape().dims());
    accumulate(x, op(Opcode::broadcast, {g}, std::move(attributes), {}, &shape));
  });
  return z;
}

Node Tape::raw_dot(Node x, Node y, std::int64_t batch, std::int64_t contract_x,
                   std::int64_t contract_y) {
  auto dims = std::make_shared<ir::DotDimensions>();
  for (std::int64_t d = 0; d < batch; ++d) {
    dims->lhs_batch.push_back(d);
    dims->rhs_batch.push_back(d);
  }
  dims->lhs_contracting = {contract_x};
  dims->rhs_contracting = {contract_y};
  Attributes attributes;
  attributes.dot = std::move(dims);
  return op(Opcode::dot, {x, y}, std::move(attributes));
}

// Operands have two dimensions beside the batch ones: the contracted one and the one that stays.
Node Tape::dot(Node x, Node y, std::int64_t batch, std::int64_t contract_x,
               std::int64_t contract_y) {
  Node z = raw_dot(x, y, batch, contract_x, contract_y);
  record([this, x, y, z, batch, contract_x, contract_y] {
    Node g = found(z);
    if (g == nullptr) return;
    const std::int64_t first = batch, second = batch + 1;
    const std::int64_t stays_x = contract_x == first ? second : first;
    const std::int64_t stays_y = contract_y == first ? second : first;
    // g is [batch..., stays_x, stays_y].
    accumulate(x, contract_x == second ? raw_dot(g, held(y), batch, second, stays_y)
                                       : raw_dot(held(y), g, batch, stays_y, second));
    accumulate(y, contract_y == first ? raw_dot(held(x), g, batch, stays_x, first)
                                      : raw_dot(g, held(x), batch, first, stays_x));
  });
  return z;
}

Node Tape::maximum_over(Node x, std::int64_t dimension) {
  Attributes attributes;
  attributes.dimensions = {dimension};
  return op(Opcode::reduce, {x, scalar(-std::numeric_limits<float>::infinity())},
            std::move(attributes),
            {ir::scalar_computation(*into_->module(), Opcode::maximum, DType::f32)});
}

}  // namespace plimsoll::graphs
