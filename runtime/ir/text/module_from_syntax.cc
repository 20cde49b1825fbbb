// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <algorithm>
#include <map>

#include "runtime/base/index.h"
#include "runtime/ir/shapes/builder.h"
#include "runtime/ir/shapes/implied_conversion.h"
#include "runtime/ir/shapes/shape_inference.h"
#include "runtime/ir/text/resolve_names.h"
#include "runtime/ir/text/shape_text.h"
#include "runtime/ir/text/syntax.h"

namespace plimsoll::ir {
namespace {

// Old texts give the start indices of dynamic-slice and dynamic-update-slice as one vector; the IR
// has one scalar operand per dimension.
void split_index_vector(Opcode opcode, std::vector<Instruction*>& operands, Computation& target) {
  const std::size_t first = opcode == Opcode::dynamic_slice ? 1 : 2;
  if (opcode != Opcode::dynamic_slice && opcode != Opcode::dynamic_update_slice) return;
  if (operands.size() != first + 1 || !operands[0]->shape().is_array()) return;
  Instruction* const vector = operands[first];
  const Shape& shape = vector->shape();
  if (!shape.is_array() || shape.rank() != 1 || shape.dim(0) != operands[0]->shape().rank()) return;
  operands.pop_back();
  for (std::int64_t i = 0; i < shape.dim(0); ++i) {
    Attributes attributes;
    attributes.slice_starts = {i};
    attributes.slice_limits = {i + 1};
    attributes.slice_strides = {1};
    Instruction* const element =
        target.add(Opcode::slice, Shape(shape.dtype(), {1}), {vector}, {}, std::move(attributes));
    operands.push_back(target.add(Opcode::reshape, Shape(shape.dtype(), {}), {element}));
  }
}

class Builder {
 public:
  Builder(ModuleSyntax syntax, const Cursor& cursor,
          std::unordered_map<std::string, std::size_t>& locations)
      : syntax_(std::move(syntax)),
        cursor_(cursor),
        locations_(locations),
        module_(std::make_unique<Module>(syntax_.name)),
        built_(syntax_.computations.size(), nullptr),
        shape_nodes_left_(65536 + 4 * static_cast<std::int64_t>(cursor.text().size())) {}

  Result<std::unique_ptr<Module>> build();

 private:
  Status build_computation(int index);
  Status build_instruction(const InstructionSyntax& instruction, std::string_view name,
                           std::vector<Instruction*> operands, Computation& target,
                           Instruction*& built);
  Result<std::vector<Computation*>> called(const InstructionSyntax& instruction,
                                           std::span<Instruction* const> operands);
  // The computation `async-start` calls, for the spellings that leave it out.
  Result<Computation*> wrap(const InstructionSyntax& instruction,
                            std::span<Instruction* const> operands,
                            std::vector<Computation*> callees);
  Result<Shape> shape_of(const InstructionSyntax& instruction, Opcode opcode,
                         const Attributes& attributes, std::span<Instruction* const> operands,
                         std::span<Computation* const> callees, const Shape* given);

  ModuleSyntax syntax_;
  const Cursor& cursor_;
  std::unordered_map<std::string, std::size_t>& locations_;
  std::unique_ptr<Module> module_;
  CallGraph calls_;
  std::vector<Computation*> built_;
  // Final names by computation and instruction.
  std::vector<std::vector<std::string>> names_;
  // Tuples of tuples can grow without end from little text; this bounds what is built.
  std::int64_t shape_nodes_left_;
  // A computation was made that its caller precedes.
  bool needs_sort_ = false;
};

Result<Shape> Builder::shape_of(const InstructionSyntax& instruction, Opcode opcode,
                                const Attributes& attributes,
                                std::span<Instruction* const> operands,
                                std::span<Computation* const> callees, const Shape* given) {
  const OpInfo& info = op_info(opcode);
  const auto fail = [&](const std::string& message) {
    return cursor_.error_at(instruction.offset, message);
  };
  const int count = static_cast<int>(operands.size());
  if (count < info.fewest_operands || (info.most_operands >= 0 && count > info.most_operands)) {
    return fail(
        fmt::format("expected {}{} operands of {}, found {}",
                    info.fewest_operands == info.most_operands ? "" : std::string("at least "),
                    info.fewest_operands, info.text, count));
  }
  if (given == nullptr && info.shape_rule == ShapeRule::given) {
    return fail("expected the shape of " + std::string(info.text) + ", which cannot be inferred");
  }
  std::vector<const Shape*> shapes;
  std::int64_t nodes = 1;
  for (const Instruction* operand : operands) {
    shapes.push_back(&operand->shape());
    if (opcode == Opcode::tuple) nodes += node_count(operand->shape());
  }
  if (given != nullptr) nodes = node_count(*given);
  if (nodes <= shape_nodes_left_) {
    Result<Shape> shape = infer_shape(opcode, shapes, attributes, callees, given);
    if (!shape.ok()) return fail(shape.status().message());
    nodes = node_count(*shape);
    if (nodes <= shape_nodes_left_) {
      shape_nodes_left_ -= nodes;
      if (has_countable_size(*shape)) return shape;
      return fail("expected a result of at most 2^56 bytes");
    }
  }
  return fail("expected tuples of a size in proportion to the text");
}

Result<std::vector<Computation*>> Builder::called(const InstructionSyntax& instruction,
                                                  std::span<Instruction* const> operands) {
  const auto fail = [&](const std::string& what) {
    return cursor_.error_at(instruction.offset, "expected " + what + " of " +
                                                    std::string(to_string(instruction.opcode)));
  };
  std::vector<CallSyntax> calls = instruction.calls;
  std::stable_sort(calls.begin(), calls.end(),
                   [](const CallSyntax& a, const CallSyntax& b) { return a.role < b.role; });
  std::vector<Computation*> callees;
  for (const CallSyntax& call : calls) {
    callees.push_back(built_[at(calls_.index(call))]);
  }
  const auto has_roles = [&](CallRole first, CallRole second) {
    return calls.size() == 2 && calls[0].role == first && calls[1].role == second;
  };
  switch (instruction.opcode) {
    case Opcode::while_:
      if (!has_roles(CallRole::condition, CallRole::body)) return fail("condition= and body=");
      return callees;
    case Opcode::select_and_scatter:
      if (!has_roles(CallRole::select, CallRole::scatter)) return fail("select= and scatter=");
      return callees;
    case Opcode::conditional:
      if (!calls.empty() && calls[0].role == CallRole::only) break;
      if (!has_roles(CallRole::true_branch, CallRole::false_branch)) {
        return fail("branch_computations=, or true_computation= and false_computation=");
      }
      return callees;
    case Opcode::call:
    case Opcode::map:
    case Opcode::reduce:
    case Opcode::reduce_window:
    case Opcode::sort:
    case Opcode::scatter:
    case Opcode::reduce_scatter:
    case Opcode::all_reduce_start:
    case Opcode::scan:
      if (callees.size() != 1) return fail("one to_apply=");
      break;
    case Opcode::all_reduce:
      // The oldest texts (cross-replica-sum) leave the addition out.
      if (callees.empty() && !operands.empty() && operands[0]->shape().is_array()) {
        needs_sort_ = true;
        callees.push_back(scalar_computation(*module_, Opcode::add, operands[0]->shape().dtype()));
      }
      if (callees.size() != 1) return fail("one to_apply=");
      break;
    case Opcode::fusion:
    case Opcode::async_start:
      if (callees.size() != 1) return fail("one calls=");
      break;
    case Opcode::custom_call:
    case Opcode::async_update:
    case Opcode::async_done:
      break;
    default:
      if (!callees.empty()) return fail("no called computation");
  }
  for (const CallSyntax& call : calls) {
    if (call.role != CallRole::only) return fail("to_apply=, calls= or branch_computations=");
  }
  return callees;
}

Result<Computation*> Builder::wrap(const InstructionSyntax& instruction,
                                   std::span<Instruction* const> operands,
                                   std::vector<Computation*> callees) {
  if (!instruction.shape.has_value() || instruction.shape->elements().size() < 2) {
    return cursor_.error_at(instruction.offset,
                            "expected the shape ((operands), result, ...) of this start");
  }
  Computation* wrapped = module_->add_computation("async_wrapped");
  needs_sort_ = true;
  std::vector<Instruction*> parameters;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    shape_nodes_left_ -= node_count(operands[i]->shape());
    if (shape_nodes_left_ < 0) {
      return cursor_.error_at(instruction.offset,
                              "expected tuples of a size in proportion to the text");
    }
    parameters.push_back(wrapped->add_parameter(static_cast<std::int64_t>(i), operands[i]->shape(),
                                                fmt::format("param_{}", i)));
  }
  PLIMSOLL_ASSIGN_OR_RETURN(
      Shape shape, shape_of(instruction, instruction.opcode, instruction.attributes, parameters,
                            callees, &instruction.shape->elements()[1]));
  Instruction* root = wrapped->add(instruction.opcode, std::move(shape), std::move(parameters), {},
                                   instruction.attributes);
  root->set_called_computations(std::move(callees));
  return wrapped;
}

Status Builder::build_instruction(const InstructionSyntax& instruction, std::string_view name,
                                  std::vector<Instruction*> operands, Computation& target,
                                  Instruction*& built) {
  PLIMSOLL_ASSIGN_OR_RETURN(std::vector<Computation*> callees, called(instruction, operands));
  Opcode opcode = instruction.opcode;
  Attributes attributes = instruction.attributes;
  if (instruction.is_wrapped) {
    PLIMSOLL_ASSIGN_OR_RETURN(Computation * wrapped,
                              wrap(instruction, operands, std::move(callees)));
    callees = {wrapped};
    opcode = Opcode::async_start;
    attributes = {};
  }
  PLIMSOLL_ASSIGN_OR_RETURN(
      Shape shape, shape_of(instruction, opcode, attributes, operands, callees,
                            instruction.shape.has_value() ? &*instruction.shape : nullptr));
  built = target.add(opcode, std::move(shape), std::move(operands), name, std::move(attributes));
  built->set_called_computations(std::move(callees));
  return ok_status();
}

Status Builder::build_computation(int index) {
  const ComputationSyntax& computation = syntax_.computations[at(index)];
  PLIMSOLL_RETURN_IF_ERROR(check_parameters(computation, cursor_));
  PLIMSOLL_ASSIGN_OR_RETURN(const NameIndices names, instruction_indices(computation, cursor_));
  PLIMSOLL_ASSIGN_OR_RETURN(const std::vector<int> order,
                            instruction_order(computation, names, syntax_.is_scheduled, cursor_));
  std::vector<Instruction*> built(computation.instructions.size(), nullptr);
  std::map<std::pair<const Instruction*, std::int64_t>, Instruction*> elements;
  const InstructionSyntax* root = nullptr;
  Computation* const target = module_->add_computation(computation.name);
  built_[at(index)] = target;
  for (const int i : order) {
    const InstructionSyntax& instruction = computation.instructions[at(i)];
    std::vector<Instruction*> operands;
    for (const OperandSyntax& operand : instruction.operands) {
      Instruction* value = built[at(operand.nested >= 0 ? operand.nested : names.at(operand.name))];
      if (operand.tuple_index >= 0) {
        const auto& parts = value->shape().elements();
        if (operand.tuple_index >= static_cast<std::int64_t>(parts.size())) {
          return cursor_.error_at(operand.offset,
                                  fmt::format("expected a tuple with an element {}, found {}",
                                              operand.tuple_index, value->shape().to_string()));
        }
        Instruction*& element = elements[{value, operand.tuple_index}];
        if (element == nullptr) {
          shape_nodes_left_ -= node_count(parts[at(operand.tuple_index)]);
          element = target->add_get_tuple_element(value, operand.tuple_index);
        }
        value = element;
      }
      if (operand.shape.has_value() && !(*operand.shape == value->shape())) {
        return cursor_.error_at(operand.offset, "expected shape " + value->shape().to_string() +
                                                    ", that of '" + value->name() + "', found " +
                                                    operand.shape->to_string());
      }
      operands.push_back(value);
    }
    split_index_vector(instruction.opcode, operands, *target);
    if (instruction.shape.has_value() && !instruction.is_wrapped) {
      add_implied_conversions(*target, instruction.opcode, *instruction.shape, operands);
    }
    Instruction*& result = built[at(i)];
    PLIMSOLL_RETURN_IF_ERROR(build_instruction(instruction, names_[at(index)][at(i)],
                                               std::move(operands), *target, result));
    locations_.emplace(result->name(), instruction.offset);
    for (const NameSyntax& predecessor : instruction.control_predecessors) {
      result->add_control_predecessor(built[at(names.at(predecessor.name))]);
    }
    if (instruction.is_root) {
      if (root != nullptr) {
        return cursor_.error_at(instruction.offset, "expected one ROOT, found a second");
      }
      root = &instruction;
    }
  }
  // Without ROOT it is the last instruction of the text, whatever the order of execution.
  Instruction* const result =
      built[root != nullptr ? at(root - computation.instructions.data()) : built.size() - 1];
  target->set_root(result);
  if (computation.has_signature && !(computation.result == result->shape())) {
    return cursor_.error_at(computation.offset,
                            "expected a result of shape " + computation.result.to_string() +
                                " as in the signature, found " + result->shape().to_string());
  }
  return ok_status();
}

Result<std::unique_ptr<Module>> Builder::build() {
  PLIMSOLL_ASSIGN_OR_RETURN(calls_, resolve_calls(syntax_, cursor_));
  int entry = -1;
  for (std::size_t i = 0; i < syntax_.computations.size(); ++i) {
    const ComputationSyntax& computation = syntax_.computations[i];
    if (!computation.is_entry) continue;
    if (entry >= 0) {
      return cursor_.error_at(computation.offset, "expected one ENTRY, found a second");
    }
    entry = static_cast<int>(i);
  }
  if (entry < 0) entry = static_cast<int>(syntax_.computations.size()) - 1;
  names_ = unique_names(syntax_, entry, calls_.order);
  for (const int index : calls_.order) PLIMSOLL_RETURN_IF_ERROR(build_computation(index));
  module_->set_entry(built_[at(entry)]);
  if (needs_sort_) module_->remove_unreachable();
  module_->is_scheduled = syntax_.is_scheduled;
  module_->input_output_alias = std::move(syntax_.input_output_alias);
  module_->buffer_donor = std::move(syntax_.buffer_donor);
  module_->replica_count = syntax_.replica_count;
  module_->num_partitions = syntax_.num_partitions;
  module_->extra = std::move(syntax_.extra);
  return std::move(module_);
}

}  // namespace

Result<std::unique_ptr<Module>> module_from_syntax(
    ModuleSyntax syntax, const Cursor& cursor,
    std::unordered_map<std::string, std::size_t>& locations) {
  return Builder(std::move(syntax), cursor, locations).build();
}

}  // namespace plimsoll::ir
