// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/shapes/builder.h"

#include <fmt/core.h>
#include <string>
#include <utility>

#include "runtime/ir/shapes/shape_inference.h"

namespace plimsoll::ir {

Result<Instruction*> build(Computation& computation, Opcode opcode,
                           std::vector<Instruction*> operands, Attributes attributes,
                           std::vector<Computation*> called, const Shape* given,
                           std::string_view name) {
  std::vector<const Shape*> shapes;
  shapes.reserve(operands.size());
  for (const Instruction* operand : operands) {
    if (operand == nullptr || operand->parent() != &computation) {
      return invalid_argument(fmt::format("{}: operand {} is not of computation '{}'",
                                          to_string(opcode), shapes.size(), computation.name()));
    }
    shapes.push_back(&operand->shape());
  }
  PLIMSOLL_ASSIGN_OR_RETURN(Shape shape, infer_shape(opcode, shapes, attributes, called, given));
  Instruction* instruction =
      computation.add(opcode, std::move(shape), std::move(operands), name, std::move(attributes));
  if (!called.empty()) instruction->set_called_computations(std::move(called));
  return instruction;
}

Computation* scalar_computation(Module& module, Opcode opcode, DType dtype) {
  const Shape scalar(dtype, {});
  for (const auto& computation : module.computations()) {
    if (!is_binary_computation(*computation, opcode)) continue;
    const auto& parameters = computation->parameters();
    if (parameters[0]->shape() == scalar && parameters[1]->shape() == scalar &&
        computation->root()->operand(0) == parameters[0]) {
      return computation.get();
    }
  }
  std::string name(to_string(opcode));
  name += "_";
  name += to_string(dtype);
  Computation* computation = module.add_computation(name);
  // Not names that programs give what they compute.
  Instruction* left = computation->add_parameter(0, scalar, "left");
  Instruction* right = computation->add_parameter(1, scalar, "right");
  const DType result = op_info(opcode).shape_rule == ShapeRule::predicate ? DType::pred : dtype;
  computation->add(opcode, Shape(result, {}), {left, right});
  return computation;
}

bool is_binary_computation(const Computation& computation, Opcode opcode) {
  const Instruction* root = computation.root();
  const auto& parameters = computation.parameters();
  if (root == nullptr || root->opcode() != opcode || root->operand_count() != 2 ||
      parameters.size() != 2 || computation.instruction_count() != 3 || opcode == Opcode::compare ||
      !root->shape().is_scalar()) {
    return false;
  }
  const Instruction* a = root->operand(0);
  const Instruction* b = root->operand(1);
  if (!(a->shape() == b->shape())) return false;
  return (a == parameters[0] && b == parameters[1]) || (a == parameters[1] && b == parameters[0]);
}

std::optional<Opcode> plain_operation(const Computation& computation) {
  for (const Opcode opcode : {Opcode::add, Opcode::multiply, Opcode::maximum, Opcode::minimum,
                              Opcode::and_, Opcode::or_, Opcode::xor_}) {
    if (is_binary_computation(computation, opcode)) return opcode;
  }
  return std::nullopt;
}

}  // namespace plimsoll::ir
