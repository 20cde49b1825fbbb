// SPDX-License-Identifier: Apache-2.0
#include "jit/canonical.h"

#include <algorithm>
#include <unordered_map>

namespace plimsoll::jit {
namespace {

using ir::Opcode;

template <typename T>
void append_list(std::string& text, char tag, const std::vector<T>& values) {
  if (values.empty()) return;
  text += tag;
  for (const T& value : values) {
    text += std::to_string(value);
    text += ',';
  }
}

void append_shape(std::string& text, const ir::Shape& shape, bool with_layout) {
  text += shape.to_string(with_layout);
}

// The attributes that the compiled operations read.
void append_attributes(std::string& text, const ir::Instruction& instruction) {
  const ir::Attributes& a = instruction.attributes();
  append_list(text, 'd', a.dimensions);
  append_list(text, 's', a.slice_starts);
  append_list(text, 'l', a.slice_limits);
  append_list(text, 't', a.slice_strides);
  append_list(text, 'z', a.slice_sizes);
  for (const ir::PaddingDimension& p : a.padding) {
    text += 'p' + std::to_string(p.low) + '_' + std::to_string(p.high) + '_' +
            std::to_string(p.interior);
  }
  if (a.gather != nullptr) {
    append_list(text, 'o', a.gather->offset_dims);
    append_list(text, 'k', a.gather->collapsed_slice_dims);
    append_list(text, 'm', a.gather->start_index_map);
    append_list(text, 'b', a.gather->operand_batching_dims);
    append_list(text, 'i', a.gather->start_indices_batching_dims);
    text += 'v' + std::to_string(a.gather->index_vector_dim);
  }
  switch (instruction.opcode()) {
    case Opcode::compare:
      text += 'c' + std::to_string(static_cast<int>(a.comparison_direction)) +
              std::to_string(static_cast<int>(a.comparison_order));
      break;
    case Opcode::reduce_precision:
      text += 'e' + std::to_string(a.exponent_bits) + 'm' + std::to_string(a.mantissa_bits);
      break;
    case Opcode::constant:
      if (a.literal != nullptr) {
        // Of a splat one element says all.
        auto bytes = a.literal->bytes();
        if (a.literal->is_splat()) {
          bytes =
              bytes.first(static_cast<std::size_t>(ir::dtype_bytes(a.literal->shape().dtype())));
        }
        text += '=' + std::to_string(bytes.size()) + ':';
        text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      }
      break;
    default:
      break;
  }
}

std::string computation_text(const ir::Computation& computation) {
  std::string text = "{";
  std::unordered_map<const ir::Instruction*, std::size_t> numbers;
  for (const auto& instruction : computation.instructions()) {
    text += ir::to_string(instruction->opcode());
    append_shape(text, instruction->shape(), false);
    if (instruction->opcode() == Opcode::parameter) {
      text += '#' + std::to_string(instruction->attributes().parameter_number);
    }
    append_attributes(text, *instruction);
    for (const ir::Instruction* operand : instruction->operands()) {
      text += ' ' + std::to_string(numbers.at(operand));
    }
    if (instruction.get() == computation.root()) text += '!';
    text += ';';
    numbers.emplace(instruction.get(), numbers.size());
  }
  return text + '}';
}

}  // namespace

std::string canonical_text(const Graph& graph) {
  std::string text;
  for (const ir::Shape* input : graph.inputs()) append_shape(text, *input, true);
  text += '\n';
  std::unordered_map<const ir::Instruction*, std::size_t> numbers;
  const auto append_node = [&](const Node& node) {
    if (node.is_input()) {
      text += " i" + std::to_string(node.input);
    } else {
      text +=
          ' ' + std::to_string(numbers.at(node.instruction)) + '.' + std::to_string(node.component);
    }
  };
  for (const ir::Instruction* table : graph.tables()) {
    append_shape(text, table->shape(), false);
    append_attributes(text, *table);
    text += '\n';
  }
  for (const ir::Instruction* instruction : graph.instructions()) {
    text += ir::to_string(instruction->opcode());
    append_shape(text, instruction->shape(), instruction->opcode() == Opcode::bitcast);
    append_attributes(text, *instruction);
    for (int i = 0; i < instruction->operand_count(); ++i) {
      append_node(graph.operand(*instruction, i));
    }
    if (instruction->opcode() == Opcode::reduce) text += computation_text(*instruction->to_apply());
    text += '\n';
    numbers.emplace(instruction, numbers.size());
  }
  for (const Node& root : graph.roots()) append_node(root);
  return text;
}

std::string kernel_name(const Graph& graph) {
  constexpr std::size_t kMost = 6;
  if (graph.instruction().opcode() != Opcode::fusion) {
    return std::string(ir::to_string(graph.instruction().opcode()));
  }
  std::vector<std::string_view> parts, moves;
  const auto add = [](std::vector<std::string_view>& list, std::string_view part) {
    if (std::find(list.begin(), list.end(), part) == list.end()) list.push_back(part);
  };
  for (const ir::Instruction* instruction : graph.instructions()) {
    const Opcode opcode = instruction->opcode();
    if (opcode == Opcode::constant || opcode == Opcode::broadcast) continue;
    const bool works = ir::is_elementwise(opcode) || opcode == Opcode::reduce;
    add(works ? parts : moves, ir::to_string(opcode));
  }
  if (parts.empty()) parts = moves;
  std::string name = "fusion";
  for (std::size_t i = 0; i < std::min(parts.size(), kMost); ++i) {
    name += '.';
    name += parts[i];
  }
  if (parts.size() > kMost) name += ".etc";
  return name;
}

}  // namespace plimsoll::jit
