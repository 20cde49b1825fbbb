// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/ir/module.h"
#include "runtime/ir/shapes/builder.h"
#include "runtime/trace/context/context.h"

namespace plimsoll::trace {

// Records a module's entry computation instruction by instruction, so that any program in HLO text
// is also a program of the trace.
class Replay {
 public:
  explicit Replay(Context& context) : context_(context) {}

  // Empty when the module uses what cannot be recorded; `why_not` then says what.
  std::optional<std::vector<NodeRef>> run(const ir::Module& module,
                                          const std::vector<ir::Literal>& arguments) {
    for (const auto& instruction : module.entry()->instructions()) {
      if (!record(*instruction, arguments)) {
        if (why_not.empty()) why_not = std::string(ir::to_string(instruction->opcode()));
        return std::nullopt;
      }
    }
    return values_.at(module.entry()->root());
  }

  std::string why_not;
  std::vector<NodeRef> parameters;  // by number

 private:
  NodeRef host(const ir::Literal& literal) {
    return context_.from_host(literal.shape(), literal.bytes());
  }

  std::optional<Callee> callee(const ir::Instruction& instruction) {
    Callee out;
    const auto combiner = [&](const ir::Computation& computation) -> bool {
      const ir::Instruction* root = computation.root();
      out.combiner = root->opcode();
      return ir::is_binary_computation(computation, root->opcode());
    };
    // (a, b, ...) -> a < b, directly on the first two parameters.
    const auto order = [&](const ir::Computation& computation) -> bool {
      const ir::Instruction* root = computation.root();
      out.direction = root->attributes().comparison_direction;
      return root->opcode() == ir::Opcode::compare && computation.parameters().size() >= 2 &&
             root->operand(0) == computation.parameters()[0] &&
             root->operand(1) == computation.parameters()[1];
    };
    switch (instruction.opcode()) {
      case ir::Opcode::reduce:
      case ir::Opcode::reduce_window:
        out.kind = Callee::Kind::combine;
        return combiner(*instruction.to_apply()) ? std::optional(out) : std::nullopt;
      case ir::Opcode::scatter:
        out.kind = Callee::Kind::combine;
        if (instruction.to_apply()->root()->opcode() == ir::Opcode::parameter &&
            instruction.to_apply()->root()->attributes().parameter_number == 1 &&
            instruction.to_apply()->parameters().size() == 2) {
          out.kind = Callee::Kind::replace;
          out.combiner = ir::Opcode::add;
          return out;
        }
        return combiner(*instruction.to_apply()) ? std::optional(out) : std::nullopt;
      case ir::Opcode::select_and_scatter:
        out.kind = Callee::Kind::select_combine;
        return order(*instruction.select()) && combiner(*instruction.scatter()) ? std::optional(out)
                                                                                : std::nullopt;
      case ir::Opcode::sort:
        out.kind = Callee::Kind::order;
        return order(*instruction.to_apply()) ? std::optional(out) : std::nullopt;
      default:
        if (!instruction.called_computations().empty()) return std::nullopt;
        return out;
    }
  }

  bool record(const ir::Instruction& instruction, const std::vector<ir::Literal>& arguments) {
    const ir::Attributes& a = instruction.attributes();
    auto& made = values_[&instruction];
    switch (instruction.opcode()) {
      case ir::Opcode::parameter: {
        const auto number = static_cast<std::size_t>(a.parameter_number);
        if (!instruction.shape().is_array()) return false;
        made = {host(arguments[number])};
        parameters.resize(std::max(parameters.size(), number + 1));
        parameters[number] = made[0];
        return true;
      }
      case ir::Opcode::constant:
        made = {
            instruction.shape().is_scalar()
                ? context_.recorder().scalar(instruction.shape().dtype(), a.literal->at(0), true)
                : host(*a.literal)};
        return true;
      case ir::Opcode::tuple:
        for (const ir::Instruction* operand : instruction.operands()) {
          if (!operand->shape().is_array()) return false;
          made.push_back(values_.at(operand)[0]);
        }
        return true;
      case ir::Opcode::get_tuple_element:
        made = {values_.at(instruction.operand(0)).at(static_cast<std::size_t>(a.tuple_index))};
        return true;
      default:
        break;
    }
    const auto called = callee(instruction);
    if (!is_recordable(instruction.opcode()) || !called) return false;
    std::vector<Node*> operands;
    for (const ir::Instruction* operand : instruction.operands()) {
      if (!operand->shape().is_array()) return false;
      operands.push_back(values_.at(operand)[0].get());
    }
    OpAttributes op{a, *called};
    const ir::Shape& shape = instruction.shape();
    const ir::Shape* given = shape.is_array() ? &shape : nullptr;
    if (instruction.opcode() == ir::Opcode::rng_bit_generator) given = &shape.elements()[1];
    auto node = context_.recorder().record(instruction.opcode(), operands, &op, given);
    if (!node.ok()) {
      why_not = node.status().to_string();
      return false;
    }
    if (shape.is_array()) {
      made = {*node};
      return true;
    }
    for (std::size_t i = 0; i < shape.elements().size(); ++i) {
      auto element = context_.recorder().element(node->get(), static_cast<int>(i));
      if (!element.ok()) return false;
      made.push_back(*element);
    }
    return true;
  }

  Context& context_;
  std::unordered_map<const ir::Instruction*, std::vector<NodeRef>> values_;
};

inline Result<ir::Literal> read_literal(Context& context, Node* node) {
  ir::Literal literal(node->shape());
  const Status status = context.read(node, literal.mutable_bytes());
  if (!status.ok()) return status;
  return literal;
}

}  // namespace plimsoll::trace
