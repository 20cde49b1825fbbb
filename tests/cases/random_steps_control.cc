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
  while (b.random.chance(0.4)) {
    const Value again = b.graph.tamed(b.graph.fitted(b.any(), x.dims()));
    b.push({b.graph.op(Opcode::call, {again.at, x.at}, {}, {callee}), 4, false});
  }
}

// One of two bodies by whether the loop's counter is even.
Value by_turns(Graph& graph, Random& random, Instruction* counter, Value x) {
  Instruction* bit = graph.op(Opcode::and_, {counter, graph.scalar(std::int32_t{1})});
  Instruction* odd = graph.compare(bit, graph.scalar(std::int32_t{1}), ir::ComparisonDirection::eq);
  std::vector<Computation*> branches;
  for (int i = 0; i < 2; ++i) {
    Computation* branch = graph.module().add_computation("turn");
    const Value argument{branch->add_parameter(0, x.at->shape())};
    Graph inner(*branch);
    branch->set_root(body_of(inner, random, argument, inner.scaled(argument, 0.5)).at);
    branches.push_back(branch);
  }
  return {graph.op(Opcode::conditional, {odd, x.at, x.at}, {}, branches), 4, false};
}

// State (counter, changing value, two values that stay); two to four rounds, sometimes with a loop
// or a branch inside. What stays is sometimes read again behind the loop.
void looped(Builder& b) {
  const Value x = b.graph.tamed(b.any_matrix());
  const Value y = b.graph.tamed(b.graph.fitted(b.any(), x.dims()));
  const Value z = b.graph.tamed(b.graph.fitted(b.any(), x.dims()));
  const std::uint64_t kind = b.random.below(3);
  const auto next = [&](Graph& inner, Value changing, Value stays) {
    return inner.tamed(inner.binary(Opcode::add, body_of(inner, b.random, changing, stays),
                                    inner.scaled(changing, 0.5), 4));
  };
  Instruction* loop = counted_loop(
      b.graph, b.random.between(2, 4), {x.at, y.at, z.at},
      [&](Graph& body, Instruction* counter, const std::vector<Instruction*>& state) {
        Value changing{state[0]};
        if (kind == 1) {
          Instruction* nested = counted_loop(
              body, b.random.between(1, 3), {state[0], state[1], state[2]},
              [&](Graph& inner, Instruction*, const std::vector<Instruction*>& values) {
                return std::vector{next(inner, {values[0]}, {values[1]}).at, values[1], values[2]};
              });
          changing = {body.computation().add_get_tuple_element(nested, 1)};
        } else if (kind == 2) {
          changing = body.tamed(by_turns(body, b.random, counter, changing));
        }
        return std::vector{next(body, changing, {state[2]}).at, state[1], state[2]};
      });
  b.push({b.graph.computation().add_get_tuple_element(loop, 1), 2, false});
  if (b.random.chance(0.4))
    b.push({b.graph.computation().add_get_tuple_element(loop, 3), 2, false});
}

// As a scan and its gradient: a loop stores a slice a round in a stack that a second loop, after
// other things, reads from the last to the first.
void stacked(Builder& b) {
  const Value x = b.graph.tamed(b.any_matrix());
  const std::int64_t rounds = b.random.between(2, 4);
  const Dims slice{1, x.dims()[0], x.dims()[1]};
  const Dims all{rounds, x.dims()[0], x.dims()[1]};
  const auto places = [](Graph& graph, Instruction* index) {
    return std::vector{index, graph.scalar(std::int32_t{0}), graph.scalar(std::int32_t{0})};
  };
  Instruction* forward = counted_loop(
      b.graph, rounds, {x.at, b.graph.constant(0, all).at},
      [&](Graph& body, Instruction* counter, const std::vector<Instruction*>& state) {
        const Value inner = body.unary(Opcode::tanh, {state[0]}, 1);
        std::vector<Instruction*> operands{state[1], body.reshaped(inner, slice).at};
        for (Instruction* place : places(body, counter)) operands.push_back(place);
        Instruction* stack = body.op(Opcode::dynamic_update_slice, operands);
        return std::vector{body.tamed(body_of(body, b.random, inner, {state[0]})).at, stack};
      });
  Instruction* stack = b.graph.computation().add_get_tuple_element(forward, 2);
  b.push({b.graph.computation().add_get_tuple_element(forward, 1), 2, false});
  const std::vector<Step> between = plain_steps();
  for (std::uint64_t i = b.random.below(4); i-- > 0;) between[b.random.below(between.size())](b);
  const Value gradient = b.graph.tamed(b.graph.fitted(b.any(), x.dims()));
  Instruction* backward = counted_loop(
      b.graph, rounds, {gradient.at, stack},
      [&](Graph& body, Instruction* counter, const std::vector<Instruction*>& state) {
        Instruction* last = body.scalar(static_cast<std::int32_t>(rounds - 1));
        std::vector<Instruction*> operands{state[1]};
        for (Instruction* place : places(body, body.op(Opcode::subtract, {last, counter}))) {
          operands.push_back(place);
        }
        ir::Attributes attributes;
        attributes.slice_sizes = slice.to_vector();
        const Value read{body.op(Opcode::dynamic_slice, operands, std::move(attributes)), 1, false};
        const Value next =
            body.binary(Opcode::multiply, {state[0]}, body.reshaped(read, x.dims()), 2);
        return std::vector{body.tamed(body_of(body, b.random, next, {state[0]})).at, state[1]};
      });
  b.push({b.graph.computation().add_get_tuple_element(backward, 1), 2, false});
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

Instruction* counted_loop(Graph& outer, std::int64_t count,
                          const std::vector<Instruction*>& initial, const Body& body_of_state) {
  std::vector<Shape> shapes{Shape(DType::s32, {})};
  std::vector<Instruction*> start{outer.scalar(std::int32_t{0})};
  for (Instruction* value : initial) {
    shapes.push_back(value->shape());
    start.push_back(value);
  }
  const Shape state = Shape::tuple(shapes);
  Computation* condition = outer.module().add_computation("condition");
  {
    Instruction* argument = condition->add_parameter(0, state);
    Graph inner(*condition);
    inner.compare(condition->add_get_tuple_element(argument, 0),
                  inner.scalar(static_cast<std::int32_t>(count)), ir::ComparisonDirection::lt);
  }
  Computation* body = outer.module().add_computation("body");
  {
    Instruction* argument = body->add_parameter(0, state);
    Instruction* counter = body->add_get_tuple_element(argument, 0);
    std::vector<Instruction*> values;
    for (std::size_t k = 0; k < initial.size(); ++k) {
      values.push_back(body->add_get_tuple_element(argument, static_cast<std::int64_t>(k) + 1));
    }
    Graph inner(*body);
    std::vector<Instruction*> next = body_of_state(inner, counter, values);
    next.insert(next.begin(), inner.op(Opcode::add, {counter, inner.scalar(std::int32_t{1})}));
    body->add_tuple(next);
  }
  return outer.op(Opcode::while_, {outer.computation().add_tuple(start)}, {}, {condition, body});
}

std::vector<Step> control_steps() { return {called, looped, branched, stacked}; }

}  // namespace plimsoll::cases
