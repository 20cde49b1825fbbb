// SPDX-License-Identifier: Apache-2.0
#include "jit/keys/canonical.h"

#include <algorithm>
#include <span>
#include <unordered_map>

#include "jit/keys/attribute_key.h"
#include "runtime/base/sha256.h"

namespace plimsoll::jit {
namespace {

using ir::Opcode;

class TextSink {
 public:
  explicit TextSink(std::string& text) : text_(text) {}
  void tag(char tag) { text_ += tag; }
  void number(std::int64_t value) { text_ += std::to_string(value) + ','; }
  void length(std::size_t size) { number(static_cast<std::int64_t>(size)); }
  void bytes(const void* data, std::size_t size) {
    text_ += std::to_string(size) + ':';
    text_.append(static_cast<const char*>(data), size);
  }

 private:
  std::string& text_;
};

void append_attributes_of(std::string& text, const ir::Instruction& instruction) {
  TextSink sink(text);
  append_attributes(sink, instruction.attributes());
}

void append_shape(std::string& text, const ir::Shape& shape, bool with_layout) {
  text += shape.to_string(with_layout);
}

std::string computation_text(const ir::Computation& computation) {
  std::string text = "{";
  std::unordered_map<const ir::Instruction*, std::size_t> numbers;
  for (const auto& instruction : computation.instructions()) {
    text += ir::to_string(instruction->opcode());
    append_shape(text, instruction->shape(), false);
    append_attributes_of(text, *instruction);
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

// The key under which a kernel is kept, in memory and on disk: everything that its code depends on
// and nothing else. Names are left out, values are numbered in the order of the walk from the
// roots, inputs are shapes only. So layer 1 and layer 2 of a model share their kernels. The text is
// compared as a whole: a hash names files and is never taken as proof.
std::string canonical_text(const KernelGraph& graph) {
  std::string text;
  for (const ir::Shape* input : graph.inputs()) append_shape(text, *input, true);
  text += '\n';
  std::unordered_map<const ir::Instruction*, std::size_t> numbers;
  const auto append_node = [&](const KernelNode& node) {
    if (node.is_input()) {
      text += " i" + std::to_string(node.input);
    } else {
      text +=
          ' ' + std::to_string(numbers.at(node.instruction)) + '.' + std::to_string(node.component);
    }
  };
  for (const ir::Instruction* table : graph.tables()) {
    append_shape(text, table->shape(), false);
    append_attributes_of(text, *table);
    text += '\n';
  }
  for (const ir::Instruction* instruction : graph.instructions()) {
    text += ir::to_string(instruction->opcode());
    append_shape(text, instruction->shape(), instruction->opcode() == Opcode::bitcast);
    append_attributes_of(text, *instruction);
    for (int i = 0; i < instruction->operand_count(); ++i) {
      append_node(graph.operand(*instruction, i));
    }
    if (instruction->opcode() == Opcode::reduce) text += computation_text(*instruction->to_apply());
    text += '\n';
    numbers.emplace(instruction, numbers.size());
  }
  for (const KernelNode& root : graph.roots()) append_node(root);
  return text;
}

std::string kernel_name(const KernelGraph& graph) {
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

std::string kernel_id(const std::string& name, const std::string& canonical) {
  return name + '.' + sha256(std::as_bytes(std::span(canonical))).substr(0, 10);
}

}  // namespace plimsoll::jit
