// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/graphs/shape_graph.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/graphs/scan_graph.h"
#include "benchmarks/graphs/tape.h"
#include "benchmarks/graphs/transformer_graph.h"
#include "runtime/base/index.h"

namespace plimsoll::graphs {
namespace {

using ir::Computation;
using ir::Dims;
using ir::DType;
using ir::Opcode;
using ir::Shape;
using Node = Tape::Node;
using Nodes = std::vector<Node>;

const Dims kValue = {1024, 64};

// A module whose entry `build` fills in; what it gives are the results.
template <typename Build>
std::unique_ptr<ir::Module> made_by(std::string_view name, const Build& build) {
  auto module = std::make_unique<ir::Module>(std::string(name));
  Computation* entry = module->add_computation("step");
  module->set_entry(entry);
  Tape tape(*entry);
  entry->add_tuple(build(tape), "result");
  entry->remove_dead();
  module->remove_unreachable();
  return module;
}

Node parameter(Tape& t, const std::string& name, const Dims& dims) {
  const auto number = static_cast<std::int64_t>(t.computation().parameters().size());
  return t.computation().add_parameter(number, Shape(DType::f32, dims), name);
}

// A distinct number per index.
float number(int index) { return 0.5f + 1e-6f * static_cast<float>(index); }

Nodes chain(Tape& t, int length) {
  Node y = parameter(t, "x", kValue), g = parameter(t, "g", kValue);
  Nodes values;
  for (int i = 0; i < length; ++i) values.push_back(y = t.op(Opcode::tanh, {y}));
  for (int i = length; i-- > 0;) g = t.op(Opcode::multiply, {g, values[at(i)]});
  return {g};
}

// The gradient of a branch's constant is its result.
Nodes wide(Tape& t, int branches) {
  Node x = parameter(t, "x", kValue);
  Nodes ends, results;
  for (int i = 0; i < branches; ++i) {
    ends.push_back(t.op(Opcode::tanh, {t.op(Opcode::add, {x, t.full(number(i), kValue)})}));
  }
  Node total = ends[0];
  for (int i = 1; i < branches; ++i) total = t.op(Opcode::add, {total, ends[at(i)]});
  for (Node end : ends) results.push_back(t.sum(t.op(Opcode::multiply, {total, end}), {0, 1}));
  return results;
}

Nodes tree(Tape& t, int leaves) {
  Node x = parameter(t, "x", kValue);
  Nodes level;
  for (int i = 0; i < leaves; ++i) {
    level.push_back(t.tanh(t.multiply(x, t.full(number(i), kValue))));
  }
  while (level.size() > 1) {
    Nodes above;
    for (std::size_t i = 0; i + 1 < level.size(); i += 2) {
      above.push_back(t.multiply(level[i], level[i + 1]));
    }
    if (level.size() % 2 != 0) above.push_back(level.back());
    level = std::move(above);
  }
  t.seed(level[0], t.full(1, kValue));
  t.backward();
  return {level[0], t.gradient(x)};
}

Nodes recurrent(Tape& t, int steps) {
  constexpr std::int64_t kBatch = 32, kIn = 8, kWidth = 128;
  const Dims state{kBatch, kWidth};
  Node input = parameter(t, "input", {steps, kBatch, kIn});
  Node in = parameter(t, "in", {kIn, kWidth}), again = parameter(t, "again", {kWidth, kWidth});
  Node bias = parameter(t, "bias", {kWidth});
  Node h = t.full(0, state);
  for (int i = 0; i < steps; ++i) {
    ir::Attributes slice;
    slice.slice_starts = {i, 0, 0};
    slice.slice_limits = {i + 1, kBatch, kIn};
    slice.slice_strides = {1, 1, 1};
    Node x = t.reshape(t.op(Opcode::slice, {input}, slice), {kBatch, kIn});
    Node sum = t.add(t.dot(x, in, 0, 1, 0), t.dot(h, again, 0, 1, 0));
    h = t.tanh(t.add(sum, t.broadcast(bias, state, {1})));
  }
  t.seed(h, h);
  t.backward();
  return {h, t.gradient(in), t.gradient(again), t.gradient(bias)};
}

// A block is a product of every row with a matrix; a scale down has half the rows.
Nodes unet(Tape& t, int blocks_per_scale) {
  constexpr std::int64_t kRows = 4096, kWidth = 32;
  constexpr int kScales = 4;
  Node h = parameter(t, "x", {kRows, kWidth}), target = parameter(t, "target", {kRows, kWidth});
  Nodes weights, passed_on;
  const auto block = [&](Node x) {
    weights.push_back(parameter(t, "w" + std::to_string(weights.size()), {kWidth, kWidth}));
    return t.tanh(t.dot(x, weights.back(), 0, 1, 0));
  };
  for (int scale = 0; scale < kScales; ++scale) {
    const std::int64_t rows = h->shape().dim(0);
    for (int i = 0; i < blocks_per_scale; ++i) passed_on.push_back(h = block(h));
    h = t.scale(t.sum(t.reshape(h, {rows / 2, 2, kWidth}), {1}), 0.5f);
  }
  h = block(h);
  for (int scale = 0; scale < kScales; ++scale) {
    const std::int64_t rows = 2 * h->shape().dim(0);
    h = t.reshape(t.broadcast(h, {rows / 2, 2, kWidth}, {0, 2}), {rows, kWidth});
    for (int i = 0; i < blocks_per_scale; ++i) {
      h = block(t.add(h, passed_on.back()));
      passed_on.pop_back();
    }
  }
  t.seed(h, t.op(Opcode::subtract, {h, target}));
  t.backward();
  Nodes results;
  for (Node w : weights) {
    results.push_back(t.op(Opcode::subtract, {w, t.gradient(w)}));
    t.computation().module()->input_output_alias.push_back(
        {{std::ssize(results) - 1}, w->attributes().parameter_number, {}, false});
  }
  return results;
}

std::unique_ptr<ir::Module> transformer(int layers, Layers form) {
  TransformerOptions options;
  options.layers = layers;
  options.adam = false;
  options.form = form;
  return transformer_step(options);
}

std::unique_ptr<ir::Module> of_units(GraphShape shape, int units) {
  std::string name(to_string(shape));
  std::replace(name.begin(), name.end(), ' ', '_');
  switch (shape) {
    case GraphShape::chain:
      return made_by(name, [&](Tape& t) { return chain(t, units); });
    case GraphShape::wide:
      return made_by(name, [&](Tape& t) { return wide(t, units); });
    case GraphShape::tree:
      return made_by(name, [&](Tape& t) { return tree(t, units); });
    case GraphShape::recurrent:
      return made_by(name, [&](Tape& t) { return recurrent(t, units); });
    case GraphShape::unet:
      return made_by(name, [&](Tape& t) { return unet(t, units); });
    case GraphShape::scan:
      return scan_step(units);
    case GraphShape::transformer:
      return transformer(units, Layers::inlined);
    case GraphShape::calls:
      return transformer(units, Layers::called);
  }
  return nullptr;
}

}  // namespace

std::string_view to_string(GraphShape shape) {
  switch (shape) {
    case GraphShape::chain:
      return "chain";
    case GraphShape::wide:
      return "wide";
    case GraphShape::tree:
      return "tree";
    case GraphShape::recurrent:
      return "unrolled RNN";
    case GraphShape::unet:
      return "U-Net";
    case GraphShape::transformer:
      return "GPT";
    case GraphShape::scan:
      return "scan";
    case GraphShape::calls:
      return "calls";
  }
  return "";
}

// Every unit more adds as many instructions as the one before.
std::unique_ptr<ir::Module> graph_of_shape(GraphShape shape, int instructions) {
  const std::int64_t two = of_units(shape, 2)->instruction_count();
  const std::int64_t three = of_units(shape, 3)->instruction_count();
  const std::int64_t each = three - two;
  const std::int64_t units = 2 + (instructions - two + each / 2) / each;
  return of_units(shape, static_cast<int>(std::max<std::int64_t>(units, 1)));
}

}  // namespace plimsoll::graphs
