// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/graphs/loop.h"

#include <utility>

namespace plimsoll::graphs {

using ir::Attributes;
using ir::Computation;
using ir::Dims;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;
using Node = Tape::Node;

Loop::Loop(ir::Module& module, std::string_view name)
    : body_(module.add_computation(name)),
      state_(body_->add_parameter(0, Shape::tuple({}), "state")) {}

Node Loop::add(Node start) {
  shapes_.push_back(start->shape());
  initial_.push_back(start);
  next_.push_back(nullptr);
  state_->set_shape(Shape::tuple(shapes_));
  return body_->add_get_tuple_element(state_, static_cast<std::int64_t>(shapes_.size()) - 1);
}

Node Loop::finish(Tape& tape, std::int64_t rounds) {
  for (std::size_t k = 0; k < next_.size(); ++k) {
    if (next_[k] == nullptr) {
      next_[k] = body_->add_get_tuple_element(state_, static_cast<std::int64_t>(k));
    }
  }
  body_->add_tuple(next_);
  Computation* condition = body_->module()->add_computation("condition");
  Instruction* state = condition->add_parameter(0, Shape::tuple(shapes_), "state");
  Tape test(*condition);
  Attributes less;
  less.comparison_direction = ir::ComparisonDirection::lt;
  test.op(
      Opcode::compare,
      {condition->add_get_tuple_element(state, 0), test.integer(static_cast<std::int32_t>(rounds))},
      less);
  return tape.op(Opcode::while_, {tape.computation().add_tuple(initial_)}, {}, {condition, body_});
}

Dims stacked(std::int64_t count, const Dims& dims) {
  std::vector<std::int64_t> all{count};
  all.insert(all.end(), dims.begin(), dims.end());
  return Dims(all);
}

Node pick(Tape& tape, Node stack, Node index) {
  const Dims& dims = stack->shape().dims();
  Attributes attributes;
  std::vector<Node> operands{stack, index};
  attributes.slice_sizes = {1};
  std::vector<std::int64_t> rest;
  for (int d = 1; d < dims.size(); ++d) {
    attributes.slice_sizes.push_back(dims[d]);
    operands.push_back(tape.integer(0));
    rest.push_back(dims[d]);
  }
  Node slice = tape.op(Opcode::dynamic_slice, operands, std::move(attributes));
  const Shape shape(DType::f32, Dims(rest));
  return tape.op(Opcode::reshape, {slice}, {}, {}, &shape);
}

Node put(Tape& tape, Node stack, Node value, Node index) {
  const Shape shape(DType::f32, stacked(1, value->shape().dims()));
  std::vector<Node> operands{stack, tape.op(Opcode::reshape, {value}, {}, {}, &shape), index};
  for (int d = 0; d < value->shape().dims().size(); ++d) operands.push_back(tape.integer(0));
  return tape.op(Opcode::dynamic_update_slice, operands);
}

}  // namespace plimsoll::graphs
