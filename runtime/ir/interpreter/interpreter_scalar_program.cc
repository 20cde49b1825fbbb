// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/interpreter/interpreter_scalar_program.h"

#include <cstring>
#include <unordered_map>

#include "runtime/ir/shapes/builder.h"

namespace plimsoll::ir::interpreter {

DType widened(DType dtype, Widening widening) {
  if (!is_floating(dtype) || dtype == DType::f64 || widening == Widening::none) return dtype;
  return widening == Widening::all_floats ? DType::f64 : DType::f32;
}

Widening widening_for(const Computation& reducer) {
  return is_binary_computation(reducer, Opcode::add) ? Widening::all_floats : Widening::halves;
}

Result<ScalarFunction> ScalarFunction::make(Context& context, const Computation& computation,
                                            Widening widening) {
  ScalarFunction function;
  function.context_ = &context;
  function.computation_ = &computation;
  function.widening_ = widening;
  for (const Instruction* parameter : computation.parameters()) {
    function.parameters_.push_back(widened(parameter->shape().dtype(), widening));
  }
  for (const Shape* leaf : leaves(computation.root()->shape())) {
    function.results_.push_back(widened(leaf->dtype(), widening));
  }
  function.compiled_ = function.compile();
  if (!function.compiled_) {
    // Calls of other computations and the like: one literal per value, in the dtypes as written.
    function.widening_ = Widening::none;
    for (std::size_t i = 0; i < function.parameters_.size(); ++i) {
      function.parameters_[i] = computation.parameters()[i]->shape().dtype();
    }
    const auto results = leaves(computation.root()->shape());
    for (std::size_t i = 0; i < results.size(); ++i) function.results_[i] = results[i]->dtype();
  }
  return function;
}

// False when the computation holds more than elementwise operations on scalars.
bool ScalarFunction::compile() {
  std::unordered_map<const Instruction*, std::size_t> slot_of;
  for (const auto& owned : computation_->instructions()) {
    const Instruction& instruction = *owned;
    if (instruction.opcode() == Opcode::tuple && instruction.is_root()) continue;
    if (!instruction.shape().is_scalar()) return false;
    const std::size_t at = slot_dtypes_.size();
    slot_dtypes_.push_back(widened(instruction.shape().dtype(), widening_));
    slots_.push_back(0);
    slot_of.emplace(&instruction, at);
    if (instruction.opcode() == Opcode::parameter) continue;
    if (instruction.opcode() == Opcode::constant) {
      const Literal& literal = *instruction.attributes().literal;
      if (literal.is_elided()) return false;
      convert_elements({literal.shape().dtype(), literal.bytes().data()}, slot_dtypes_[at],
                       slot(at), 1);
      continue;
    }
    if (!is_elementwise(instruction.opcode()) || instruction.opcode() == Opcode::bitcast_convert) {
      return false;
    }
    Step step{instruction.opcode(), &instruction.attributes(), {}, at};
    for (const Instruction* operand : instruction.operands()) {
      step.operands.push_back(slot_of.at(operand));
    }
    steps_.push_back(std::move(step));
  }
  for (const Instruction* parameter : computation_->parameters()) {
    parameter_slots_.push_back(slot_of.at(parameter));
  }
  const Instruction& root = *computation_->root();
  if (root.opcode() != Opcode::tuple) {
    result_slots_.push_back(slot_of.at(&root));
    return true;
  }
  for (const Instruction* element : root.operands()) {
    const auto it = slot_of.find(element);
    if (it == slot_of.end()) return false;
    result_slots_.push_back(it->second);
  }
  return true;
}

Status ScalarFunction::call(std::span<const std::byte* const> arguments,
                            std::span<std::byte* const> results) {
  if (!compiled_) return call_through_literals(arguments, results);
  for (std::size_t i = 0; i < parameter_slots_.size(); ++i) {
    std::memcpy(slot(parameter_slots_[i]), arguments[i],
                static_cast<std::size_t>(dtype_bytes(parameters_[i])));
  }
  View views[3];
  for (const Step& step : steps_) {
    for (std::size_t i = 0; i < step.operands.size(); ++i) {
      views[i] = {slot_dtypes_[step.operands[i]], slot(step.operands[i])};
    }
    apply_elementwise(step.opcode, *step.attributes, {views, step.operands.size()},
                      slot_dtypes_[step.result], slot(step.result), 1);
  }
  for (std::size_t i = 0; i < result_slots_.size(); ++i) {
    std::memcpy(results[i], slot(result_slots_[i]),
                static_cast<std::size_t>(dtype_bytes(results_[i])));
  }
  return ok_status();
}

Status ScalarFunction::call_through_literals(std::span<const std::byte* const> arguments,
                                             std::span<std::byte* const> results) {
  std::vector<Literal> values;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    values.push_back(
        Literal::from_bytes(Shape(parameters_[i], {}),
                            {arguments[i], static_cast<std::size_t>(dtype_bytes(parameters_[i]))}));
  }
  std::vector<const Literal*> pointers;
  for (const Literal& value : values) pointers.push_back(&value);
  PLIMSOLL_ASSIGN_OR_RETURN(const Literal result, evaluate(*context_, *computation_, pointers));
  for (std::size_t i = 0; i < results_.size(); ++i) {
    const Literal& leaf = result.shape().is_tuple() ? result.elements()[i] : result;
    std::memcpy(results[i], leaf.bytes().data(), leaf.bytes().size());
  }
  return ok_status();
}

}  // namespace plimsoll::ir::interpreter
