// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/ir/module.h"
#include "runtime/ir/shapes/builder.h"
#include "runtime/trace/context/context.h"
#include "runtime/trace/record/scope.h"

namespace plimsoll::trace {

// Records a module instruction by instruction, calls, loops and two-way branches included, so that
// any program in HLO text is also a program of the trace. Tuples are lists of their leaves.
class Replay {
 public:
  explicit Replay(Context& context) : context_(context) {}

  // Empty when the module uses what cannot be recorded; `why_not` then says what.
  std::optional<std::vector<NodeRef>> run(const ir::Module& module,
                                          const std::vector<ir::Literal>& arguments) {
    arguments_ = &arguments;
    return run(*module.entry());
  }

  std::string why_not;
  int loops = 0, branches = 0;
  std::vector<NodeRef> parameters;  // by number

 private:
  using Leaves = std::vector<NodeRef>;

  // The leaves of the root, in the scope there is. Parameters that `given` has none for are the
  // module's.
  std::optional<Leaves> run(const ir::Computation& computation,
                            const std::vector<Leaves>* given = nullptr) {
    Values values;
    std::swap(values, values_);
    bool fine = true;
    for (const auto& instruction : computation.instructions()) {
      if (given != nullptr && instruction->opcode() == ir::Opcode::parameter) {
        values_[instruction.get()] =
            (*given)[static_cast<std::size_t>(instruction->attributes().parameter_number)];
        continue;
      }
      fine = record(*instruction);
      if (!fine) {
        if (why_not.empty()) why_not = std::string(ir::to_string(instruction->opcode()));
        break;
      }
    }
    std::optional<Leaves> root;
    if (fine) root = values_.at(computation.root());
    std::swap(values, values_);
    return root;
  }

  static std::vector<Node*> nodes(const Leaves& leaves) {
    std::vector<Node*> nodes;
    for (const NodeRef& leaf : leaves) nodes.push_back(leaf.get());
    return nodes;
  }

  // A region of its own: parameters shaped like `inputs`, all of which go to the computation's
  // one, unless `captures` has them read where they are.
  std::shared_ptr<const Region> region(const ir::Computation& computation, const Leaves& inputs,
                                       bool captures, Leaves& captured) {
    Scope scope(context_.recording());
    std::vector<Node*> parameters;
    Leaves leaves = inputs;
    if (!captures) {
      leaves.clear();
      for (const NodeRef& input : inputs) {
        parameters.push_back(scope.parameter(input->shape()));
        leaves.emplace_back(context_.recording(), parameters.back());
      }
    }
    const std::vector<Leaves> given = {leaves};
    const auto outputs = run(computation, &given);
    if (!outputs) return nullptr;
    auto made = scope.extract(parameters, nodes(*outputs), captured);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return made.ok() ? *made : nullptr;
  }

  bool record_control_flow(const ir::Instruction& instruction, Leaves& made) {
    const bool loop = instruction.opcode() == ir::Opcode::while_;
    ControlFlow control;
    control.form = loop ? ControlFlow::Form::loop : ControlFlow::Form::branches;
    Leaves operands = values_.at(instruction.operand(0)), captured;
    if (!loop && operands[0]->dtype != ir::DType::pred) return false;
    const std::size_t state = operands.size();
    if (ir::leaf_count(instruction.shape()) == 0) return false;
    if (loop) control.carried = static_cast<int>(state);
    for (int i = 0; i < 2; ++i) {
      const Leaves& inputs = loop ? operands : values_.at(instruction.operand(i + 1));
      auto part = region(*instruction.called(i), inputs, !loop, captured);
      if (part == nullptr) return false;
      control.regions.push_back(std::move(part));
    }
    operands.insert(operands.end(), captured.begin(), captured.end());
    ++(loop ? loops : branches);
    const NodeRef tuple = record_control(context_.recording(), std::move(control), nodes(operands));
    for (int i = 0; i < ir::leaf_count(instruction.shape()); ++i) {
      auto element = context_.recorder().element(tuple.get(), i);
      if (!element.ok()) return false;
      made.push_back(*element);
    }
    return true;
  }

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

  bool record(const ir::Instruction& instruction) {
    Leaves made;
    if (!record(instruction, made)) return false;
    values_[&instruction] = std::move(made);
    return true;
  }

  bool record(const ir::Instruction& instruction, Leaves& made) {
    const ir::Attributes& a = instruction.attributes();
    switch (instruction.opcode()) {
      case ir::Opcode::parameter: {
        const auto number = static_cast<std::size_t>(a.parameter_number);
        if (!instruction.shape().is_array()) return false;
        made = {host((*arguments_)[number])};
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
          const Leaves& leaves = values_.at(operand);
          made.insert(made.end(), leaves.begin(), leaves.end());
        }
        return true;
      case ir::Opcode::get_tuple_element: {
        const ir::Instruction& tuple = *instruction.operand(0);
        const auto first = values_.at(&tuple).begin() +
                           ir::leaf_offset(tuple.shape(), static_cast<int>(a.tuple_index));
        made.assign(first, first + ir::leaf_count(instruction.shape()));
        return true;
      }
      case ir::Opcode::while_:
      case ir::Opcode::conditional:
        return record_control_flow(instruction, made);
      case ir::Opcode::call: {
        std::vector<Leaves> given;
        for (const ir::Instruction* operand : instruction.operands()) {
          given.push_back(values_.at(operand));
        }
        auto root = run(*instruction.to_apply(), &given);
        if (root) made = *std::move(root);
        return root.has_value();
      }
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

  using Values = std::unordered_map<const ir::Instruction*, Leaves>;

  Context& context_;
  const std::vector<ir::Literal>* arguments_ = nullptr;
  Values values_;
};

// Leaves of a literal in order.
inline void add_leaves(const ir::Literal& literal, std::vector<ir::Literal>& leaves) {
  if (literal.shape().is_array()) {
    leaves.push_back(literal);
    return;
  }
  for (const ir::Literal& element : literal.elements()) add_leaves(element, leaves);
}

inline Result<ir::Literal> read_literal(Context& context, Node* node) {
  ir::Literal literal(node->shape());
  const Status status = context.read(node, literal.mutable_bytes());
  if (!status.ok()) return status;
  return literal;
}

}  // namespace plimsoll::trace
