// SPDX-License-Identifier: Apache-2.0
#include "tests/cases/random_module.h"

#include <algorithm>
#include <cmath>

#include "tests/cases/random_steps.h"

namespace plimsoll::cases {

using ir::Dims;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

Builder::Builder(ir::Computation& entry, Random& source, const RandomModuleOptions& chosen)
    : graph(entry), random(source), options(chosen) {
  const double smallest = std::log2(static_cast<double>(options.smallest_bytes) / 4);
  const double largest = std::log2(static_cast<double>(options.largest_bytes) / 4);
  const int count = static_cast<int>(random.between(2, 4));
  for (int i = 0; i < count; ++i) {
    // The first shape is among the large ones, so that a few values dominate.
    const double place = i == 0 ? 0.7 + 0.3 * random.unit() : random.unit();
    const double elements = std::exp2(smallest + (largest - smallest) * place);
    const auto rows = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(std::sqrt(elements) * (0.5 + random.unit())));
    auto columns = std::max<std::int64_t>(1, static_cast<std::int64_t>(elements) / rows);
    if (options.whole_words) columns = (columns + 31) / 32 * 32;
    shapes.push_back({rows, columns});
  }
  for (int i = 0; i < count; ++i) push(parameter(shapes[static_cast<std::size_t>(i)]));
  if (options.rare) add_rare_parameters();
}

// Of other dtypes, and a tuple with a tuple in it.
void Builder::add_rare_parameters() {
  ir::Computation& entry = graph.computation();
  const auto add = [&](const Shape& shape) {
    return entry.add_parameter(static_cast<std::int64_t>(entry.parameters().size()), shape);
  };
  const DType dtypes[] = {DType::bf16, DType::f64, DType::s32, DType::pred, DType::u8};
  const DType dtype = dtypes[random.below(5)];
  push({graph.convert(add(Shape(dtype, any_shape())), DType::f32), 2, true});
  const Shape inner =
      Shape::tuple({Shape(DType::s32, any_shape()), Shape(DType::f32, any_shape())});
  Instruction* tuple = add(Shape::tuple({Shape(DType::f32, any_shape()), inner}));
  push({entry.add_get_tuple_element(tuple, 0), 2, true});
  Instruction* second = entry.add_get_tuple_element(tuple, 1);
  push({graph.convert(entry.add_get_tuple_element(second, 0), DType::f32), 2, true});
  push({entry.add_get_tuple_element(second, 1), 2, true});
}

Value Builder::parameter(const Dims& dims) {
  const auto number = static_cast<std::int64_t>(graph.computation().parameters().size());
  return {graph.computation().add_parameter(number, Shape(DType::f32, dims)), 2, true};
}

Value Builder::any() {
  if (random.chance(0.3)) return values[random.below(values.size())];
  const std::size_t recent = std::min<std::size_t>(values.size(), 6);
  return values[values.size() - 1 - random.below(recent)];
}

Value Builder::any_exact() {
  std::vector<Value> exact;
  for (const Value& value : values) {
    if (value.exact) exact.push_back(value);
  }
  return exact[random.below(exact.size())];  // parameters are
}

Dims Builder::any_shape() { return shapes[random.below(shapes.size())]; }

Value Builder::any_matrix() {
  const Value x = any();
  const bool is_matrix = x.dims().size() == 2 && x.at->shape().element_count() > 0;
  return is_matrix ? x : graph.fitted(x, any_shape());
}

void Builder::push(Value value) {
  if (value.at->shape().element_count() == 0) return;
  if (value.at->shape().byte_size() > options.largest_bytes) {
    value = graph.fitted(value, any_shape());
  }
  values.push_back(graph.tamed(value));
}

namespace {

// A chain of layers over tall matrices, a gradient, and the parameters' updates from the last layer
// to the first, so that every activation lives from its layer to the mirror place. The parameters
// are small and every layer can be computed again from the one before it.
class TrainingStep {
 public:
  TrainingStep(Builder& builder, int layers) : b_(builder) {
    const std::int64_t columns = b_.options.whole_words ? 32 : b_.random.between(8, 24);
    const double share = 0.5 + 0.5 * b_.random.unit();
    const auto rows = static_cast<std::int64_t>(
        share * static_cast<double>(b_.options.largest_bytes) / static_cast<double>(4 * columns));
    dims_ = {std::max<std::int64_t>(rows, 1), columns};
    Value h = b_.parameter(dims_);
    noise_ = h;
    for (int i = 0; i < layers; ++i) {
      layers_.push_back(forward(h));
      if (b_.options.gates) open_gate(layers_.back());
      h = layers_.back().output;
    }
    b_.push(b_.graph.mean(h, {0}));
  }

  // Pairs of a parameter and its new value.
  std::vector<std::pair<Instruction*, Instruction*>> backward() {
    Graph& g = b_.graph;
    Value gradient =
        g.binary(Opcode::subtract, layers_.back().output, g.fitted(b_.any(), dims_), 4);
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
      gradient = g.tamed(backward(*layer, close_gate(*layer, gradient)));
    }
    b_.push(g.mean(gradient, {1}));
    return std::move(updates_);
  }

 private:
  enum class Kind { linear, gain, residual };
  enum class Gate { none, mask, sign, rounded };
  struct Layer {
    Kind kind;
    Value input, weights, bias, inner, output;
    Gate gate = Gate::none;
    Value through;                // sign, rounded: what the gate works with, forward and backward
    Instruction* mask = nullptr;  // mask
  };

  Instruction* is_positive(Value x) {
    return b_.graph.compare(x.at, b_.graph.constant(0, dims_).at, ir::ComparisonDirection::gt);
  }
  Value selected(Instruction* mask, Value yes, Value no) {
    const double bound = std::max(yes.bound, no.bound);
    return {b_.graph.op(Opcode::select, {mask, yes.at, no.at}), bound, yes.exact && no.exact};
  }

  // Works on the layer's output with something that every implementation computes with the same
  // bits.
  void open_gate(Layer& layer) {
    Graph& g = b_.graph;
    const Value u = g.unary(Opcode::sine, g.scaled(noise_, 0.5 + b_.random.unit()), 1);
    const Gate gates[] = {Gate::none, Gate::mask, Gate::sign, Gate::rounded};
    layer.gate = gates[b_.random.below(4)];
    layer.through = u;
    switch (layer.gate) {
      case Gate::none:
        return;
      case Gate::mask:
        layer.mask = is_positive(u);
        layer.output = selected(layer.mask, layer.output, g.constant(0, dims_));
        return;
      case Gate::sign:
        layer.output = g.tamed(g.binary(Opcode::add, layer.output, u, layer.output.bound + 1));
        return;
      case Gate::rounded:
        layer.through.at = g.convert(g.convert(u.at, ir::DType::bf16), ir::DType::f32);
        layer.output = g.binary(Opcode::multiply, layer.output, layer.through, layer.output.bound);
        return;
    }
  }
  Value close_gate(const Layer& layer, Value gradient) {
    Graph& g = b_.graph;
    switch (layer.gate) {
      case Gate::none:
        return gradient;
      case Gate::mask:
        return selected(layer.mask, gradient, g.constant(0, dims_));
      case Gate::sign:
        return selected(is_positive(layer.through), gradient, g.scaled(gradient, 0.5));
      case Gate::rounded:
        return g.binary(Opcode::multiply, gradient, layer.through, gradient.bound);
    }
    return gradient;
  }

  Value over_rows(Value vector) { return b_.graph.broadcast(vector, dims_, {1}); }

  Layer forward(Value h) {
    Graph& g = b_.graph;
    const Kind kinds[] = {Kind::linear, Kind::gain, Kind::residual};
    Layer layer;
    layer.kind = kinds[b_.random.below(3)];
    layer.input = h;
    const std::int64_t columns = dims_[1];
    layer.bias = b_.parameter({columns});
    if (layer.kind == Kind::gain) {
      layer.weights = b_.parameter({columns});
      const Value product = g.binary(Opcode::multiply, h, over_rows(layer.weights), h.bound * 2);
      layer.inner = g.binary(Opcode::add, product, over_rows(layer.bias), product.bound + 2);
      layer.output = g.unary(Opcode::sine, layer.inner, 1);
      return layer;
    }
    layer.weights = b_.parameter({columns, columns});
    const Value product = g.dot(h, layer.weights);
    const Value sum = g.binary(Opcode::add, product, over_rows(layer.bias), product.bound + 2);
    layer.inner = g.unary(Opcode::tanh, sum, 1);
    layer.output = layer.kind == Kind::linear
                       ? layer.inner
                       : g.scaled(g.binary(Opcode::add, h, layer.inner, h.bound + 1), 0.5);
    return layer;
  }

  Value backward(const Layer& layer, Value gradient) {
    Graph& g = b_.graph;
    if (layer.kind == Kind::gain) {
      const Value slope = g.unary(Opcode::cosine, layer.inner, 1);
      const Value into = g.binary(Opcode::multiply, gradient, slope, gradient.bound);
      const Value product =
          g.binary(Opcode::multiply, into, layer.input, into.bound * layer.input.bound);
      update(layer.weights, g.mean(product, {0}));
      update(layer.bias, g.mean(into, {0}));
      return g.binary(Opcode::multiply, into, over_rows(layer.weights), into.bound * 2);
    }
    const Value square = g.binary(Opcode::multiply, layer.inner, layer.inner, 1);
    const Value slope = g.binary(Opcode::subtract, g.constant(1, dims_), square, 2);
    const Value into = g.binary(Opcode::multiply, gradient, slope, 2 * gradient.bound);
    update(layer.weights, g.dot(g.transposed(layer.input, {1, 0}), into));
    update(layer.bias, g.mean(into, {0}));
    const Value back = g.dot(into, g.transposed(layer.weights, {1, 0}));
    if (layer.kind == Kind::linear) return back;
    return g.binary(Opcode::add, back, gradient, back.bound + gradient.bound);
  }

  void update(Value parameter, Value gradient) {
    if (b_.options.replicas * b_.options.partitions > 1 && b_.random.chance(0.7)) {
      gradient = summed_over_all(b_.graph, b_.random, gradient, b_.options);
    }
    const Value step = b_.graph.scaled(gradient, 0.01);
    updates_.emplace_back(parameter.at, b_.graph.binary(Opcode::subtract, parameter, step, 4).at);
  }

  Builder& b_;
  Dims dims_;
  Value noise_;
  std::vector<Layer> layers_;
  std::vector<std::pair<Instruction*, Instruction*>> updates_;
};

void take_steps(Builder& b, int until, const std::vector<Step>& plain,
                const std::vector<Step>& dtype, const std::vector<Step>& control) {
  const bool together = b.options.replicas * b.options.partitions > 1;
  const std::vector<Step> collective = together ? collective_steps() : std::vector<Step>{};
  std::vector<Step> rare;
  if (b.options.rare) {
    for (const auto& steps : {indexed_steps(), window_steps(), rare_steps(), nested_steps()}) {
      rare.insert(rare.end(), steps.begin(), steps.end());
    }
  }
  while (b.graph.computation().instruction_count() < until) {
    if (together && b.random.chance(0.2)) {
      collective[b.random.below(collective.size())](b);
      continue;
    }
    if (b.options.large_constants && b.random.chance(0.3)) {
      constant_weights(b);
      continue;
    }
    if (b.options.rare && b.random.chance(0.5)) {
      rare[b.random.below(rare.size())](b);
      continue;
    }
    const double choice = b.random.unit();
    const std::vector<Step>& from = !control.empty() && choice < 0.12 ? control
                                    : !dtype.empty() && choice < 0.3  ? dtype
                                                                      : plain;
    from[b.random.below(from.size())](b);
  }
}

// Values without users: a few become outputs, the others are folded into one scalar, so that
// nothing is dead.
std::vector<Instruction*> outputs_of(Builder& b) {
  std::vector<Instruction*> outputs;
  Value total = b.graph.constant(0, {});
  const std::vector<Value> values = b.values;
  for (const Value& value : values) {
    if (!value.at->users().empty() || value.at->opcode() == Opcode::parameter) continue;
    if (outputs.size() < 3 && b.random.chance(0.4)) {
      outputs.push_back(value.at);
      continue;
    }
    std::vector<std::int64_t> all;
    for (int d = 0; d < value.dims().size(); ++d) all.push_back(d);
    const Value part = all.empty() ? value : b.graph.mean(value, all);
    total = b.graph.binary(Opcode::add, total, part, total.bound + part.bound);
  }
  outputs.push_back(total.at);
  return outputs;
}

// Outputs that few programs have, behind the others: of other dtypes, in a tuple of their own, a
// parameter as it is, a constant, one that there is already.
void add_rare_outputs(Builder& b, std::vector<Instruction*>& outputs) {
  ir::Computation& entry = b.graph.computation();
  const DType dtypes[] = {DType::bf16, DType::f16, DType::f64, DType::s8, DType::pred, DType::u32};
  std::vector<Instruction*> others{
      b.graph.convert(b.any_exact().at, dtypes[b.random.below(5)]),
      b.any().at,
      outputs[b.random.below(outputs.size())],
      entry.parameters()[b.random.below(entry.parameters().size())],
      b.graph.constant(0.25, b.any_shape()).at,
      entry.add_tuple({}),
  };
  for (std::size_t i = others.size(); i > 1; --i) {
    std::swap(others[i - 1], others[b.random.below(i)]);
  }
  others.resize(b.random.below(others.size() + 1));
  if (b.random.chance(0.5)) {
    outputs.insert(outputs.end(), others.begin(), others.end());
  } else {
    outputs.push_back(entry.add_tuple(others));
  }
}

// A part of a tuple that is a parameter gives its buffer to an output, and another's is free.
void donate_parts(Builder& b, const std::vector<Instruction*>& outputs) {
  ir::Module& module = b.graph.module();
  for (const Instruction* parameter : b.graph.computation().parameters()) {
    if (!parameter->shape().is_tuple() || b.random.chance(0.5)) continue;
    const std::int64_t number = parameter->attributes().parameter_number;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::vector<std::int64_t> output{static_cast<std::int64_t>(i)};
      const bool is_free = std::none_of(
          module.input_output_alias.begin(), module.input_output_alias.end(),
          [&](const ir::InputOutputAlias& alias) { return alias.output_index == output; });
      if (is_free && outputs[i]->shape() == parameter->shape().elements()[0]) {
        module.input_output_alias.push_back({output, number, {0}, b.random.chance(0.5)});
        break;
      }
    }
    if (b.random.chance(0.5)) module.buffer_donor.push_back({number, {1, 1}});
  }
}

// Some outputs take over the buffer of a parameter of their shape.
void donate(Builder& b, const std::vector<Instruction*>& outputs,
            const std::vector<std::pair<Instruction*, Instruction*>>& updates) {
  ir::Module& module = b.graph.module();
  std::vector<std::int64_t> taken;
  const auto alias = [&](std::size_t output, const Instruction* parameter) {
    const std::int64_t number = parameter->attributes().parameter_number;
    if (std::find(taken.begin(), taken.end(), number) != taken.end()) return false;
    taken.push_back(number);
    module.input_output_alias.push_back({{static_cast<std::int64_t>(output)}, number, {}, false});
    return true;
  };
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    bool done = false;
    for (const auto& [parameter, updated] : updates) {
      if (updated == outputs[i] && b.random.chance(0.7)) done = alias(i, parameter);
    }
    if (done || !b.random.chance(0.3)) continue;
    for (const Instruction* parameter : b.graph.computation().parameters()) {
      if (parameter->shape() == outputs[i]->shape() && alias(i, parameter)) break;
    }
  }
}

}  // namespace

std::unique_ptr<ir::Module> random_module(std::uint64_t seed, const RandomModuleOptions& options) {
  Random random(seed);
  auto module = std::make_unique<ir::Module>("random_" + std::to_string(seed));
  ir::Computation* entry = module->add_computation("main");
  module->set_entry(entry);
  module->replica_count = options.replicas;
  module->num_partitions = options.partitions;
  Builder b(*entry, random, options);
  const std::vector<Step> plain = plain_steps();
  const std::vector<Step> dtype = options.mixed_dtypes ? dtype_steps() : std::vector<Step>{};
  const std::vector<Step> control = options.control_flow ? control_steps() : std::vector<Step>{};

  std::vector<std::pair<Instruction*, Instruction*>> updates;
  if (options.training_step && random.chance(0.7)) {
    // About twenty instructions a layer in all.
    const int most = std::max(3, options.instructions / 20);
    TrainingStep step(b, static_cast<int>(random.between(3, most)));
    take_steps(b, entry->instruction_count() + options.instructions / 4, plain, dtype, control);
    updates = step.backward();
    take_steps(b, entry->instruction_count() + options.instructions / 8, plain, dtype, control);
  }
  take_steps(b, options.instructions, plain, dtype, control);
  std::vector<Instruction*> outputs = outputs_of(b);
  for (const auto& [parameter, updated] : updates) outputs.push_back(updated);
  if (options.rare) add_rare_outputs(b, outputs);
  entry->add_tuple(outputs, "result");
  if (options.donations) donate(b, outputs, updates);
  if (options.donations && options.rare) donate_parts(b, outputs);
  entry->remove_dead();
  module->remove_unreachable();
  return module;
}

}  // namespace plimsoll::cases
