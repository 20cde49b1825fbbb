// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/ir/module.h"
#include "runtime/ir/shapes/builder.h"

namespace plimsoll::planner {

inline ir::Instruction* make(ir::Computation& c, ir::Opcode opcode,
                             std::vector<ir::Instruction*> operands, ir::Attributes attributes = {},
                             const ir::Shape* shape = nullptr) {
  auto made = ir::build(c, opcode, std::move(operands), std::move(attributes), {}, shape);
  return made.ok() ? *made : nullptr;
}

inline ir::Instruction* matmul(ir::Computation& c, ir::Instruction* a, ir::Instruction* b,
                               std::int64_t contract_a, std::int64_t contract_b) {
  auto dims = std::make_shared<ir::DotDimensions>();
  dims->lhs_contracting = {contract_a};
  dims->rhs_contracting = {contract_b};
  ir::Attributes attributes;
  attributes.dot = dims;
  return make(c, ir::Opcode::dot, {a, b}, attributes);
}

// One training step of a multi-layer perceptron: forward, backward, every weight updated into its
// donated parameter. About 9 ops a layer.
inline std::unique_ptr<ir::Module> training_step(int layers, std::int64_t batch, std::int64_t width,
                                                 bool residual = false) {
  auto module = std::make_unique<ir::Module>("step");
  ir::Computation& c = *module->add_computation("entry");
  module->set_entry(&c);
  const ir::Shape activation(ir::DType::f32, {batch, width});
  const ir::Shape weight(ir::DType::f32, {width, width});
  ir::Instruction* x = c.add_parameter(0, activation, "x");
  std::vector<ir::Instruction*> weights;
  for (int i = 0; i < layers; ++i) {
    weights.push_back(c.add_parameter(i + 1, weight, "w" + std::to_string(i)));
  }
  using ir::Opcode;
  std::vector<ir::Instruction*> inputs, squashed;
  for (int i = 0; i < layers; ++i) {
    inputs.push_back(x);
    ir::Instruction* y =
        make(c, Opcode::tanh, {matmul(c, x, weights[static_cast<std::size_t>(i)], 1, 0)});
    squashed.push_back(y);
    x = residual ? make(c, Opcode::add, {x, y}) : y;
  }
  ir::Instruction* g = make(c, Opcode::multiply, {x, x});
  std::vector<ir::Instruction*> results;
  for (int i = layers - 1; i >= 0; --i) {
    const auto k = static_cast<std::size_t>(i);
    ir::Instruction* square = make(c, Opcode::multiply, {squashed[k], squashed[k]});
    ir::Instruction* d = make(c, Opcode::multiply, {g, square});
    ir::Instruction* dw = matmul(c, inputs[k], d, 0, 0);
    ir::Instruction* back = matmul(c, d, weights[k], 1, 1);
    g = residual ? make(c, Opcode::add, {g, back}) : back;
    results.push_back(make(c, Opcode::subtract, {weights[k], dw}));
    module->input_output_alias.push_back(
        {{static_cast<std::int64_t>(results.size()) - 1}, i + 1, {}, false});
  }
  c.add_tuple(results);
  return module;
}

// Elementwise ops, slices and concatenations over earlier values, near ones mostly and far ones
// sometimes.
inline std::unique_ptr<ir::Module> random_graph(std::uint32_t seed, int ops) {
  auto module = std::make_unique<ir::Module>("random");
  ir::Computation& c = *module->add_computation("entry");
  module->set_entry(&c);
  std::mt19937 rng(seed);
  const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(rng() % n); };
  std::vector<ir::Instruction*> values;
  for (int i = 0; i < 3; ++i) {
    values.push_back(c.add_parameter(
        i, ir::Shape(ir::DType::f32, {static_cast<std::int64_t>(64 * (1 + pick(8)))})));
  }
  using ir::Opcode;
  for (int i = 0; i < ops; ++i) {
    const std::size_t n = values.size();
    const bool far = pick(5) == 0;
    ir::Instruction* a = values[far ? pick(n) : n - 1 - pick(std::min<std::size_t>(n, 6))];
    ir::Instruction* b = values[pick(n)];
    ir::Instruction* made = nullptr;
    const std::int64_t size = a->shape().dim(0);
    switch (pick(5)) {
      case 0:
        if (size >= 128) {
          ir::Attributes attributes;
          attributes.slice_starts = {64};
          attributes.slice_limits = {size};
          attributes.slice_strides = {1};
          made = make(c, Opcode::slice, {a}, attributes);
          break;
        }
        [[fallthrough]];
      case 1:
        if (size + b->shape().dim(0) <= 2048) {
          ir::Attributes attributes;
          attributes.dimensions = {0};
          made = make(c, Opcode::concatenate, {a, b}, attributes);
          break;
        }
        [[fallthrough]];
      case 2:
        if (b->shape() == a->shape()) {
          made = make(c, Opcode::add, {a, b});
          break;
        }
        [[fallthrough]];
      case 3:
        made = make(c, Opcode::exponential, {a});
        break;
      default:
        made = make(c, Opcode::negate, {a});
        break;
    }
    values.push_back(made);
  }
  // Everything counts: what nobody reads is summed up.
  ir::Attributes head;
  head.slice_starts = {0};
  head.slice_limits = {64};
  head.slice_strides = {1};
  ir::Instruction* sum = make(c, Opcode::slice, {values[0]}, head);
  for (ir::Instruction* value : values) {
    if (value->users().empty()) {
      sum = make(c, Opcode::add, {sum, make(c, Opcode::slice, {value}, head)});
    }
  }
  c.add_tuple({sum, values.back()});
  return module;
}

}  // namespace plimsoll::planner
