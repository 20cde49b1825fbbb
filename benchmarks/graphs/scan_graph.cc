// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/graphs/scan_graph.h"

#include <string>
#include <vector>

#include "benchmarks/graphs/loop.h"
#include "benchmarks/graphs/tape.h"

namespace plimsoll::graphs {
namespace {

using ir::Dims;
using ir::DType;
using ir::Opcode;
using ir::Shape;
using Node = Tape::Node;

constexpr std::int32_t kRounds = 16;
// Element i of a stack is of the state after i rounds: of inputs and gradients, nobody reads the
// first.
const Dims kState = {32, 64}, kWeight = {64, 64}, kStack = {kRounds + 1, 32, 64};

// The states of all rounds.
Node forward(Tape& t, Node inputs, Node weight) {
  Loop loop(*t.computation().module(), "forward");
  Tape body(loop.body());
  Node round = loop.add(t.integer(0)), h = loop.add(t.full(0, kState));
  Node xs = loop.add(inputs), w = loop.add(weight), hs = loop.add(t.full(0, kStack));
  Node after = body.op(Opcode::add, {round, body.integer(1)});
  Node next = body.tanh(body.add(body.dot(h, w, 0, 1, 0), pick(body, xs, after)));
  loop.set_next(0, after);
  loop.set_next(1, next);
  loop.set_next(4, put(body, hs, next, after));
  return t.computation().add_get_tuple_element(loop.finish(t, kRounds), 4);
}

struct Gradients {
  Node inputs, weight;
};

// `gradients` are those of the states.
Gradients backward(Tape& t, Node states, Node weight, Node gradients) {
  Loop loop(*t.computation().module(), "backward");
  Tape body(loop.body());
  Node back = loop.add(t.integer(0)), g = loop.add(t.full(0, kState));
  Node hs = loop.add(states), w = loop.add(weight), gs = loop.add(gradients);
  Node of_inputs = loop.add(t.full(0, kStack)), of_weight = loop.add(t.full(0, kWeight));
  Node after = body.op(Opcode::subtract, {body.integer(kRounds), back});
  Node before = body.op(Opcode::subtract, {after, body.integer(1)});
  Node h = pick(body, hs, after), reached = body.add(g, pick(body, gs, after));
  Node slope = body.subtract(body.full(1, kState), body.multiply(h, h));
  Node inner = body.multiply(reached, slope);
  loop.set_next(0, body.op(Opcode::add, {back, body.integer(1)}));
  loop.set_next(1, body.dot(inner, w, 0, 1, 1));
  loop.set_next(5, put(body, of_inputs, inner, after));
  loop.set_next(6, body.add(of_weight, body.dot(pick(body, hs, before), inner, 0, 0, 0)));
  Node end = loop.finish(t, kRounds);
  return {t.computation().add_get_tuple_element(end, 5),
          t.computation().add_get_tuple_element(end, 6)};
}

}  // namespace

std::unique_ptr<ir::Module> scan_step(int layers) {
  auto module = std::make_unique<ir::Module>("scan_step");
  ir::Computation* entry = module->add_computation("step");
  module->set_entry(entry);
  Tape t(*entry);
  std::vector<Node> weights, states, results;
  Node value = entry->add_parameter(0, Shape(DType::f32, kStack), "x");
  for (int i = 0; i < layers; ++i) {
    weights.push_back(
        entry->add_parameter(i + 1, Shape(DType::f32, kWeight), "w" + std::to_string(i)));
    states.push_back(value = forward(t, value, weights.back()));
  }
  Node gradients = value;
  for (std::size_t i = weights.size(); i-- > 0;) {
    const Gradients made = backward(t, states[i], weights[i], gradients);
    gradients = made.inputs;
    module->input_output_alias.push_back(
        {{std::ssize(results)}, static_cast<std::int64_t>(i) + 1, {}, false});
    results.push_back(t.op(Opcode::subtract, {weights[i], made.weight}));
  }
  entry->add_tuple(results, "result");
  return module;
}

}  // namespace plimsoll::graphs
