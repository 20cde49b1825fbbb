// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tests/cases/random_steps.h"

namespace plimsoll::cases {
namespace {

using ir::Computation;
using ir::Dims;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

// A few bounded operations on `x` (and `y` of the same dims) inside a called computation.
Value body_of(Graph& graph, Random& random, Value x, Value y) {
  const int count = static_cast<int>(random.between(1, 4));
  for (int i = 0; i < count; ++i) {
    switch (random.below(4)) {
      case 0:
        x = graph.unary(Opcode::sine, x, 1);
        break;
      case 1:
        x = graph.tamed(graph.binary(Opcode::add, x, y, x.bound + y.bound));
        break;
      case 2:
        x = graph.tamed(graph.binary(Opcode::multiply, x, y, x.bound * y.bound));
        break;
      default: {
        const Value sum = graph.mean(x, {static_cast<std::int64_t>(x.dims().size()) - 1});
        std::vector<std::int64_t> kept;
        for (int d = 0; d + 1 < x.dims().size(); ++d) kept.push_back(d);
        const Value back = graph.broadcast(sum, x.dims(), kept);
        x = graph.binary(Opcode::subtract, x, back, x.bound + back.bound);
        x = graph.tamed(x);
      }
    }
  }
  return x;
}

Computation* two_argument_computation(Builder& b, const Dims& dims, const char* name) {
  Computation* computation = b.graph.module().add_computation(name);
  const Shape shape(DType::f32, dims);
  const Value x{computation->add_parameter(0, shape)};
  const Value y{computation->add_parameter(1, shape)};
  Graph inner(*computation);
  body_of(inner, b.random, inner.tamed(x), y);
  computation->set_root(computation->instructions().back().get());
  return computation;
}

void called(Builder& b) {
  const Value x = b.graph.tamed(b.any_matrix());
  const Value y = b.graph.tamed(b.graph.fitted(b.any(), x.dims()));
  Computation* callee = two_argument_computation(b, x.dims(), "callee");
  b.push({b.graph.op(Opcode::call, {x.at, y.at}, {}, {callee}), 4, false});
  if (b.random.chance(0.3)) {
    b.push({b.graph.op(Opcode::call, {y.at, x.at}, {}, {callee}), 4, false});
  }
}

// State (counter, changing value, invariant); two to four rounds.
void looped(Builder& b) {
  const Value x = b.graph.tamed(b.any_matrix());
  const Value y = b.graph.tamed(b.graph.fitted(b.any(), x.dims()));
  const Shape state = Shape::tuple(
      {Shape(DType::s32, {}), Shape(DType::f32, x.dims()), Shape(DType::f32, x.dims())});
  Computation* condition = b.graph.module().add_computation("condition");
  {
    Instruction* argument = condition->add_parameter(0, state);
    Instruction* counter = condition->add_get_tuple_element(argument, 0);
    Graph inner(*condition);
    inner.compare(counter, inner.scalar(static_cast<std::int32_t>(b.random.between(2, 4))),
                  ir::ComparisonDirection::lt);
  }
  Computation* body = b.graph.module().add_computation("body");
  {
    Instruction* argument = body->add_parameter(0, state);
    Instruction* counter = body->add_get_tuple_element(argument, 0);
    const Value changing{body->add_get_tuple_element(argument, 1)};
    const Value invariant{body->add_get_tuple_element(argument, 2)};
    Graph inner(*body);
    const Value next =
        inner.tamed(inner.binary(Opcode::add, body_of(inner, b.random, changing, invariant),
                                 inner.scaled(changing, 0.5), 4));
    Instruction* one_more = inner.op(Opcode::add, {counter, inner.scalar(std::int32_t{1})});
    body->add_tuple({one_more, next.at, invariant.at});
  }
  Instruction* start =
      b.graph.computation().add_tuple({b.graph.scalar(std::int32_t{0}), x.at, y.at});
  Instruction* loop = b.graph.op(Opcode::while_, {start}, {}, {condition, body});
  b.push({b.graph.computation().add_get_tuple_element(loop, 1), 2, false});
}

void branched(Builder& b) {
  const Value x = b.graph.tamed(b.any_matrix());
  const Value key = b.graph.reshaped(b.graph.fitted(b.any_exact(), {1}), {});
  const auto branch = [&](const char* name) {
    Computation* computation = b.graph.module().add_computation(name);
    const Value argument{computation->add_parameter(0, Shape(DType::f32, x.dims()))};
    Graph inner(*computation);
    const Value result = body_of(inner, b.random, argument, inner.scaled(argument, 0.5));
    computation->set_root(result.at);
    return computation;
  };
  if (b.random.chance(0.5)) {
    Instruction* positive =
        b.graph.compare(key.at, b.graph.scalar(0.0f), ir::ComparisonDirection::gt);
    Computation* on_true = branch("on_true");
    Computation* on_false = branch("on_false");
    b.push({b.graph.op(Opcode::conditional, {positive, x.at, x.at}, {}, {on_true, on_false}), 2,
            false});
    return;
  }
  Instruction* index = b.graph.convert(b.graph.scaled(key, 2).at, DType::s32);
  std::vector<Computation*> branches;
  std::vector<Instruction*> operands = {index};
  for (int i = 0; i < 3; ++i) {
    branches.push_back(branch("branch"));
    operands.push_back(x.at);
  }
  b.push({b.graph.op(Opcode::conditional, operands, {}, branches), 2, false});
}

}  // namespace

std::vector<Step> control_steps() { return {called, looped, branched}; }

}  // namespace plimsoll::cases
