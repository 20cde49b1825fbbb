// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/fusion/standing_values.h"

#include <algorithm>
#include <vector>

#include "runtime/ir/dataflow/views.h"
#include "runtime/passes/rewriter.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

// The loop whose body `computation` is; null where it is none's.
const Instruction* loop_of(const Computation& computation) {
  for (const Computation* caller : programs_of(*computation.module())) {
    for (const auto& instruction : caller->instructions()) {
      if (instruction->opcode() == Opcode::while_ && instruction->while_body() == &computation) {
        return instruction.get();
      }
    }
  }
  return nullptr;
}

}  // namespace

StandingValues standing_values(const Computation& computation) {
  StandingValues standing;
  const Instruction* loop = loop_of(computation);
  for (const Instruction* parameter : computation.parameters()) {
    standing.insert(parameter);
    for (const Instruction* element : parameter->users()) {
      if (element->opcode() != Opcode::get_tuple_element) continue;
      const int leaf =
          ir::leaf_offset(parameter->shape(), static_cast<int>(element->attributes().tuple_index));
      // A loop writes what it changes where it lies, as soon as nobody reads it any more.
      if (loop == nullptr || ir::passes_through(*loop, leaf)) standing.insert(element);
    }
  }
  if (loop != nullptr) return standing;
  const Instruction& root = *computation.root();
  standing.insert(ir::shown_by(&root));
  if (root.opcode() == Opcode::tuple) {
    for (const Instruction* result : root.operands()) standing.insert(ir::shown_by(result));
  }
  return standing;
}

std::int64_t bytes_read(std::span<Instruction* const> members, const StandingValues& standing) {
  std::vector<const Instruction*> read;
  for (const Instruction* member : members) {
    for (const Instruction* operand : member->operands()) {
      if (std::find(members.begin(), members.end(), operand) != members.end()) continue;
      const Instruction* value = ir::shown_by(operand);
      if (value->opcode() == Opcode::constant || standing.contains(value)) continue;
      if (std::find(read.begin(), read.end(), value) == read.end()) read.push_back(value);
    }
  }
  std::int64_t bytes = 0;
  for (const Instruction* value : read) {
    for (const ir::Shape* leaf : ir::leaves(value->shape())) bytes += leaf->byte_size();
  }
  return bytes;
}

}  // namespace plimsoll::passes
