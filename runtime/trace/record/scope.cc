// SPDX-License-Identifier: Apache-2.0
#include "runtime/trace/record/scope.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "runtime/base/index.h"

namespace plimsoll::trace {
namespace {

using ir::Opcode;

constexpr int kMostCallbacks = 32;
// What variables a value was computed from is no property of the operation.
constexpr std::uint8_t kOwnFlags = static_cast<std::uint8_t>(~(kVariable | kDerived));

Opcode opcode_of(const ControlFlow& control) {
  return control.form == ControlFlow::Form::branches ? Opcode::conditional : Opcode::while_;
}

}  // namespace

Status Scope::check_depth(const Recording& recording) {
  if (recording.depth() < kMostCallbacks) return ok_status();
  return invalid_argument("more than " + std::to_string(kMostCallbacks) +
                          " loops and branches inside each other");
}

Node* Scope::parameter(const ir::Shape& shape) {
  parameters_.emplace_back(recording_,
                           recording_.add(Opcode::parameter, shape.dtype(), shape.dims(), {}, {}));
  return parameters_.back().get();
}

Result<std::shared_ptr<const Region>> Scope::extract(std::span<Node* const> parameters,
                                                     std::span<Node* const> outputs,
                                                     std::vector<NodeRef>& captured) {
  std::unordered_map<const Node*, int> number;
  for (Node* parameter : parameters) {
    number.emplace(parameter, static_cast<int>(number.size()));
  }
  const auto capture = [&](Node* node) {
    number.emplace(node, static_cast<int>(parameters.size() + captured.size()));
  };
  {
    const std::vector<NodeRef> known = std::exchange(captured, {});
    for (const NodeRef& node : known) {
      capture(node.get());
      captured.push_back(node);
    }
  }
  // What is needed, and what of outside that reads.
  std::unordered_set<const Node*> needed;
  std::vector<Node*> open(outputs.rbegin(), outputs.rend());
  const std::uint16_t depth = recording_.depth();
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    if (number.contains(node) || needed.contains(node)) continue;
    if (node->scope != depth) {
      capture(node);
      captured.emplace_back(recording_, node);
      continue;
    }
    if (node->opcode == Opcode::parameter) {
      return internal_error("a callback's value depends on a parameter that it is not given");
    }
    needed.insert(node);
    open.insert(open.end(), node->operands().rbegin(), node->operands().rend());
  }
  auto region = std::make_shared<Region>();
  for (const Node* parameter : parameters) region->parameters.push_back(parameter->shape());
  for (const NodeRef& node : captured) region->parameters.push_back(node->shape());
  std::vector<const Node*> steps;
  for (const Node* node = recording_.newest(); steps.size() < needed.size();
       node = node->previous) {
    if (needed.contains(node)) steps.push_back(node);
  }
  std::reverse(steps.begin(), steps.end());
  for (const Node* node : steps) {
    Region::Step step;
    step.opcode = node->opcode;
    step.shape = result_shape(*node);
    step.flags = node->flags & kOwnFlags;
    step.name = node->name;
    for (const Node* operand : node->operands()) step.operands.push_back(number.at(operand));
    step.words.assign(node->words().begin(), node->words().end());
    if (node->control != nullptr) {
      step.control = std::make_shared<const ControlFlow>(*node->control);
    }
    number.emplace(node, static_cast<int>(region->parameters.size() + region->steps.size()));
    region->steps.push_back(std::move(step));
  }
  for (const Node* output : outputs) region->outputs.push_back(number.at(output));
  make_key(*region);
  return std::shared_ptr<const Region>(std::move(region));
}

std::vector<NodeRef> record_region(Recording& recording, const Region& region,
                                   std::span<Node* const> arguments) {
  std::vector<Node*> values(arguments.begin(), arguments.end());
  std::vector<NodeRef> kept;
  std::vector<Node*> operands;
  for (const Region::Step& step : region.steps) {
    operands.clear();
    for (const int operand : step.operands) operands.push_back(values[at(operand)]);
    const ir::Shape& shape = step.shape.is_tuple() ? step.shape.elements().back() : step.shape;
    Node* node =
        recording.add(step.opcode, shape.dtype(), shape.dims(), operands, step.words, step.flags);
    node->name = step.name;
    if (step.control != nullptr) node->control = std::make_unique<const ControlFlow>(*step.control);
    kept.emplace_back(recording, node);
    values.push_back(node);
  }
  std::vector<NodeRef> outputs;
  for (const int output : region.outputs) outputs.emplace_back(recording, values[at(output)]);
  return outputs;
}

NodeRef record_control(Recording& recording, ControlFlow control, std::span<Node* const> operands) {
  const ir::Shape last = control.result_shape(control.result_count() - 1);
  Node* node =
      recording.add(opcode_of(control), last.dtype(), last.dims(), operands, {}, kTupleResult);
  node->control = std::make_unique<const ControlFlow>(std::move(control));
  return NodeRef(recording, node);
}

}  // namespace plimsoll::trace
