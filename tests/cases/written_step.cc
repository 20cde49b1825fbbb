// SPDX-License-Identifier: Apache-2.0
#include "tests/cases/written_step.h"

#include <stdexcept>
#include <unordered_map>

#include "runtime/ir/text/text.h"

namespace plimsoll::cases {

using ir::Instruction;
using ir::Opcode;

std::string text_of(std::int64_t number) { return std::to_string(number); }

std::string text_of(ir::DType dtype) { return std::string(ir::to_string(dtype)); }

std::string text_of(const ir::Dims& dims) {
  return ir::Shape(ir::DType::f32, dims).to_string().substr(3);
}

std::string filled(const std::string& text, const Letters& letters) {
  std::string made;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '$') {
      made += text[at];
      continue;
    }
    const char wanted = at + 1 < text.size() ? text[at + 1] : '$';
    bool found = false;
    for (const auto& [letter, stands] : letters) {
      if (letter != wanted) continue;
      made += stands;
      found = true;
    }
    if (!found)
      throw std::logic_error("nothing stands for $" + std::string(1, wanted) + " in " + text);
    ++at;
  }
  return made;
}

Instruction* written(Builder& b, const std::string& text,
                     const std::vector<Instruction*>& operands) {
  const auto parsed = ir::parse_module(text, "step");
  if (!parsed.ok()) throw std::logic_error(parsed.status().to_string() + "\n" + text);
  ir::Computation* callee = b.graph.module().add_clone(*(*parsed)->entry(), "step");
  if (b.random.chance(0.25)) return b.graph.op(Opcode::call, operands, {}, {callee});
  std::unordered_map<const Instruction*, Instruction*> copies;
  for (const auto& instruction : callee->instructions()) {
    if (instruction->opcode() == Opcode::parameter) {
      Instruction* operand =
          operands.at(static_cast<std::size_t>(instruction->attributes().parameter_number));
      if (!(operand->shape() == instruction->shape())) {
        throw std::logic_error(operand->shape().to_string() + " for " +
                               instruction->shape().to_string() + " of\n" + text);
      }
      copies[instruction.get()] = operand;
      continue;
    }
    std::vector<Instruction*> of;
    for (const Instruction* operand : instruction->operands()) of.push_back(copies.at(operand));
    copies[instruction.get()] = b.graph.computation().add_clone(*instruction, std::move(of));
  }
  return copies.at(callee->root());
}

std::vector<Instruction*> written_parts(Builder& b, const std::string& text,
                                        const std::vector<Instruction*>& operands) {
  Instruction* made = written(b, text, operands);
  std::vector<Instruction*> parts;
  for (std::size_t i = 0; i < made->shape().elements().size(); ++i) {
    parts.push_back(
        b.graph.computation().add_get_tuple_element(made, static_cast<std::int64_t>(i)));
  }
  return parts;
}

Instruction* places(Builder& b, const ir::Dims& dims, std::int64_t limit, ir::DType dtype) {
  const double half = 0.5 * static_cast<double>(limit);
  const Value spread = b.graph.scaled(b.graph.fitted(b.any_exact(), dims), half);
  return b.graph.convert(
      b.graph.binary(Opcode::add, spread, b.graph.constant(half, dims), spread.bound + half).at,
      dtype);
}

}  // namespace plimsoll::cases
