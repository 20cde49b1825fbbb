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
    const auto columns = std::max<std::int64_t>(1, static_cast<std::int64_t>(elements) / rows);
    shapes.push_back({rows, columns});
  }
  for (int i = 0; i < count; ++i) push(parameter(shapes[static_cast<std::size_t>(i)]));
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

struct Layer {
  Value input, weights, output;
};

// h[i+1] = tanh(h[i] W[i]), a loss, and the weights' updates from last to first, so that every
// activation lives from its layer to the mirror place.
class TrainingStep {
 public:
  TrainingStep(Builder& builder, int layers) : b_(builder) {
    Value h = b_.graph.fitted(b_.any(), b_.any_shape());
    for (int i = 0; i < layers; ++i) {
      const std::int64_t width = i % 2 == 0 ? std::min<std::int64_t>(h.dims()[1], 64) : h.dims()[1];
      const Value weights = b_.parameter({h.dims()[1], width});
      const Value output = b_.graph.unary(Opcode::tanh, b_.graph.dot(h, weights), 1);
      layers_.push_back({h, weights, output});
      h = output;
    }
    b_.push(h);
  }

  // Pairs of a weight parameter and its new value.
  std::vector<std::pair<Instruction*, Instruction*>> backward() {
    Graph& g = b_.graph;
    std::vector<std::pair<Instruction*, Instruction*>> updates;
    Value gradient = g.scaled(g.fitted(b_.any(), layers_.back().output.dims()), 0.1);
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
      const Value square = g.binary(Opcode::multiply, layer->output, layer->output, 1);
      const Value slope = g.binary(Opcode::subtract, g.constant(1, square.dims()), square, 2);
      const Value into = g.binary(Opcode::multiply, gradient, slope, 2 * gradient.bound);
      const Value step = g.scaled(g.dot(g.transposed(layer->input, {1, 0}), into), 0.01);
      updates.emplace_back(layer->weights.at,
                           g.binary(Opcode::subtract, layer->weights, step, 4).at);
      gradient = g.tamed(g.dot(into, g.transposed(layer->weights, {1, 0})));
    }
    b_.push(gradient);
    return updates;
  }

 private:
  Builder& b_;
  std::vector<Layer> layers_;
};

void take_steps(Builder& b, int until, const std::vector<Step>& plain,
                const std::vector<Step>& dtype, const std::vector<Step>& control) {
  while (b.graph.computation().instruction_count() < until) {
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
  Builder b(*entry, random, options);
  const std::vector<Step> plain = plain_steps();
  const std::vector<Step> dtype = options.mixed_dtypes ? dtype_steps() : std::vector<Step>{};
  const std::vector<Step> control = options.control_flow ? control_steps() : std::vector<Step>{};

  std::vector<std::pair<Instruction*, Instruction*>> updates;
  if (options.training_step && random.chance(0.6)) {
    // About fifteen instructions a layer in all; the rest is for the steps between.
    const int most = std::max(2, options.instructions / 25);
    TrainingStep step(b, static_cast<int>(random.between(2, std::max(2, most))));
    take_steps(b, options.instructions * 2 / 3, plain, dtype, control);
    updates = step.backward();
  }
  take_steps(b, options.instructions, plain, dtype, control);
  std::vector<Instruction*> outputs = outputs_of(b);
  for (const auto& [parameter, updated] : updates) outputs.push_back(updated);
  entry->add_tuple(outputs, "result");
  if (options.donations) donate(b, outputs, updates);
  entry->remove_dead();
  module->remove_unreachable();
  return module;
}

}  // namespace plimsoll::cases
