// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/cost/trip_count.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace plimsoll::planner {
namespace {

using ir::Instruction;
using ir::Opcode;

constexpr double kUnknownTripCount = 16;

// {"known_trip_count":{"n":"5"}}, quotes and spaces as they may come.
std::optional<double> annotated(const Instruction& loop) {
  const std::string_view text = loop.attributes().find_extra("backend_config");
  std::size_t at = text.find("known_trip_count");
  if (at == std::string_view::npos) return std::nullopt;
  at = text.find_first_of("0123456789", at);
  if (at == std::string_view::npos) return std::nullopt;
  double n = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    n = n * 10 + (text[at] - '0');
  }
  return n;
}

const Instruction* through_copies(const Instruction* instruction) {
  while (instruction->opcode() == Opcode::copy || instruction->opcode() == Opcode::bitcast ||
         instruction->opcode() == Opcode::convert) {
    instruction = instruction->operand(0);
  }
  return instruction;
}

std::optional<double> scalar_constant(const Instruction* instruction) {
  instruction = through_copies(instruction);
  if (instruction->opcode() != Opcode::constant || !instruction->shape().is_array()) {
    return std::nullopt;
  }
  const auto& literal = instruction->attributes().literal;
  if (literal == nullptr || literal->is_elided() || literal->shape().element_count() != 1) {
    return std::nullopt;
  }
  return literal->at(0);
}

// The state element that `instruction` reads, or -1.
std::int64_t state_element(const Instruction* instruction) {
  instruction = through_copies(instruction);
  const bool reads_state = instruction->opcode() == Opcode::get_tuple_element &&
                           instruction->operand(0)->opcode() == Opcode::parameter;
  return reads_state ? instruction->attributes().tuple_index : -1;
}

// How often `while (state[k] < n)` runs, for a constant n, a constant start and steps of one: n -
// start. Nothing is proved here (the body might add two): this is a factor in a price. What must be
// exact is in ir/dataflow/induction_variables.cc.
std::optional<double> counted(const Instruction& loop) {
  const Instruction* test = loop.while_condition()->root();
  if (test->opcode() == Opcode::fusion) {
    // The condition is one comparison, fused: read it with the fusion's operands put in.
    const Instruction* inner = test->to_apply()->root();
    if (inner->opcode() != Opcode::compare) return std::nullopt;
    test = inner;
  }
  if (test->opcode() != Opcode::compare) return std::nullopt;
  const auto resolve = [&](const Instruction* i) {
    i = through_copies(i);
    if (i->opcode() == Opcode::parameter && test->parent() != loop.while_condition()) {
      const Instruction* fusion = loop.while_condition()->root();
      return static_cast<const Instruction*>(
          fusion->operand(static_cast<int>(i->attributes().parameter_number)));
    }
    return i;
  };
  const std::int64_t element = state_element(resolve(test->operand(0)));
  const std::optional<double> bound = scalar_constant(resolve(test->operand(1)));
  if (element < 0 || !bound) return std::nullopt;
  const Instruction* initial = loop.operand(0);
  if (initial->opcode() != Opcode::tuple) return std::nullopt;
  const std::optional<double> start = scalar_constant(initial->operand(static_cast<int>(element)));
  if (!start) return std::nullopt;
  switch (test->attributes().comparison_direction) {
    case ir::ComparisonDirection::lt:
    case ir::ComparisonDirection::ne:
      return *bound - *start;
    case ir::ComparisonDirection::le:
      return *bound - *start + 1;
    case ir::ComparisonDirection::gt:
      return *start - *bound;
    case ir::ComparisonDirection::ge:
      return *start - *bound + 1;
    default:
      return std::nullopt;
  }
}

}  // namespace

double trip_count(const Instruction& loop) {
  std::optional<double> n = annotated(loop);
  if (!n) n = counted(loop);
  return std::clamp(n.value_or(kUnknownTripCount), 1.0, 1e9);
}

}  // namespace plimsoll::planner
