// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <limits>
#include <string>

#include "runtime/ir/text/attribute_text.h"
#include "runtime/ir/text/constant_text.h"
#include "runtime/ir/text/text.h"

namespace plimsoll::ir {
namespace {

constexpr std::int64_t kMaxShownElements = 16;

template <typename List>
std::string join(const List& list) {
  std::string text;
  for (const auto& item : list) {
    if (!text.empty()) text += ",";
    text += std::to_string(item);
  }
  return text;
}

std::string called_text(const Instruction& instruction) {
  const auto& called = instruction.called_computations();
  if (called.empty()) return "";
  const auto name = [&](std::size_t i) { return "%" + called[i]->name(); };
  switch (instruction.opcode()) {
    case Opcode::while_:
      return ", condition=" + name(0) + ", body=" + name(1);
    case Opcode::select_and_scatter:
      return ", select=" + name(0) + ", scatter=" + name(1);
    case Opcode::fusion:
    case Opcode::async_start:
    case Opcode::async_update:
    case Opcode::async_done:
      return ", calls=" + name(0);
    case Opcode::conditional:
    case Opcode::custom_call: {
      std::string text = instruction.opcode() == Opcode::conditional ? ", branch_computations={"
                                                                     : ", called_computations={";
      for (std::size_t i = 0; i < called.size(); ++i) text += (i > 0 ? ", " : "") + name(i);
      return text + "}";
    }
    default:
      return ", to_apply=" + name(0);
  }
}

std::string extra_text(const std::vector<std::pair<std::string, std::string>>& extra) {
  std::string text;
  for (const auto& [name, value] : extra) text += ", " + name + "=" + value;
  return text;
}

std::string header_text(const Module& module, const PrintOptions& options) {
  std::string text = "HloModule " + module.name();
  if (module.is_scheduled) text += ", is_scheduled=true";
  if (!module.input_output_alias.empty()) {
    text += ", input_output_alias={";
    for (const InputOutputAlias& alias : module.input_output_alias) {
      text += &alias == module.input_output_alias.data() ? " " : ", ";
      text +=
          fmt::format("{{{}}}: ({}, {{{}}}, {}", join(alias.output_index), alias.parameter_number,
                      join(alias.parameter_index), alias.must_alias ? "must-alias)" : "may-alias)");
    }
    text += " }";
  }
  if (!module.buffer_donor.empty()) {
    text += ", buffer_donor={";
    for (const BufferDonor& donor : module.buffer_donor) {
      text += &donor == module.buffer_donor.data() ? " " : ", ";
      text += fmt::format("({}, {{{}}})", donor.parameter_number, join(donor.parameter_index));
    }
    text += " }";
  }
  if (module.replica_count != 1) text += fmt::format(", replica_count={}", module.replica_count);
  if (module.num_partitions != 1) {
    text += fmt::format(", num_partitions={}", module.num_partitions);
  }
  if (options.extras) text += extra_text(module.extra);
  return text + "\n";
}

}  // namespace

std::string to_text(const Instruction& instruction, const PrintOptions& options) {
  std::string text = "%" + instruction.name() + " = " +
                     instruction.shape().to_string(options.layouts) + " " +
                     std::string(to_string(instruction.opcode())) + "(";
  if (instruction.opcode() == Opcode::parameter) {
    text += std::to_string(instruction.attributes().parameter_number);
  } else if (instruction.opcode() == Opcode::constant && instruction.attributes().literal) {
    text += literal_text(
        *instruction.attributes().literal,
        options.large_constants ? std::numeric_limits<std::int64_t>::max() : kMaxShownElements);
  }
  for (int i = 0; i < instruction.operand_count(); ++i) {
    const Instruction& operand = *instruction.operand(i);
    if (i > 0) text += ", ";
    if (options.operand_shapes) text += operand.shape().to_string(options.layouts) + " ";
    text += "%" + operand.name();
  }
  text += ")" + attributes_text(instruction) + called_text(instruction);
  if (!instruction.control_predecessors().empty()) {
    text += ", control-predecessors={";
    for (const Instruction* predecessor : instruction.control_predecessors()) {
      if (predecessor != instruction.control_predecessors().front()) text += ", ";
      text += "%" + predecessor->name();
    }
    text += "}";
  }
  if (options.extras) text += extra_text(instruction.attributes().extra);
  return text;
}

std::string to_text(const Computation& computation, const PrintOptions& options) {
  std::string text = "%" + computation.name() + " (";
  for (const Instruction* parameter : computation.parameters()) {
    if (parameter != computation.parameters().front()) text += ", ";
    text += parameter->name() + ": " + parameter->shape().to_string(options.layouts);
  }
  text += ") -> " + computation.root()->shape().to_string(options.layouts) + " {\n";
  for (const auto& instruction : computation.instructions()) {
    text += instruction->is_root() ? "  ROOT " : "  ";
    text += to_text(*instruction, options) + "\n";
  }
  return text + "}\n";
}

std::string to_text(const Module& module, const PrintOptions& options) {
  std::string text = header_text(module, options);
  for (const auto& computation : module.computations()) {
    text += computation.get() == module.entry() ? "\nENTRY " : "\n";
    text += to_text(*computation, options);
  }
  return text;
}

}  // namespace plimsoll::ir
