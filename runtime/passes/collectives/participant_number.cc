// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/collectives/participant_number.h"

#include <vector>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/participants.h"

namespace plimsoll::passes {

using ir::Instruction;
using ir::Literal;
using ir::Opcode;

namespace {

// Offsets are short sums of products; tables that they are looked up in have an element each.
constexpr int kDeepestNumber = 12;
constexpr std::int64_t kMostElements = 4 * ir::kMostParticipants;

std::optional<Literal> evaluate(const Instruction& value, std::int64_t participant, int depth) {
  if (depth > kDeepestNumber || !value.shape().is_array() ||
      value.shape().element_count() > kMostElements) {
    return std::nullopt;
  }
  const ir::Topology topology = ir::topology_of(value);
  switch (value.opcode()) {
    case Opcode::partition_id:
      return Literal::scalar(static_cast<std::uint32_t>(participant % topology.partitions));
    case Opcode::replica_id:
      return Literal::scalar(static_cast<std::uint32_t>(participant / topology.partitions));
    case Opcode::constant:
      if (value.attributes().literal->is_elided()) return std::nullopt;
      return *value.attributes().literal;
    case Opcode::iota:
    case Opcode::add:
    case Opcode::subtract:
    case Opcode::multiply:
    case Opcode::divide:
    case Opcode::remainder:
    case Opcode::minimum:
    case Opcode::maximum:
    case Opcode::clamp:
    case Opcode::convert:
    case Opcode::copy:
    case Opcode::reshape:
    case Opcode::bitcast:
    case Opcode::broadcast:
    case Opcode::slice:
    case Opcode::dynamic_slice:
    case Opcode::select:
    case Opcode::compare:
      break;
    default:
      return std::nullopt;
  }
  std::vector<Literal> operands;
  for (const Instruction* operand : value.operands()) {
    auto one = evaluate(*operand, participant, depth + 1);
    if (!one.has_value()) return std::nullopt;
    operands.push_back(std::move(*one));
  }
  auto made = ir::interpret(value, operands);
  return made.ok() ? std::optional<Literal>(std::move(*made)) : std::nullopt;
}

}  // namespace

std::optional<std::int64_t> number_in(const Instruction& value, std::int64_t participant) {
  if (!value.shape().is_array() || !ir::is_integer(value.shape().dtype()) ||
      value.shape().element_count() != 1) {
    return std::nullopt;
  }
  const auto made = evaluate(value, participant, 0);
  if (!made.has_value()) return std::nullopt;
  return static_cast<std::int64_t>(made->at(0));
}

}  // namespace plimsoll::passes
