// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll::ir {

enum class Opcode : std::uint8_t {
#define PLIMSOLL_OP(name, text, fewest, most, op_class, rule, effect) name,
#include "runtime/ir/ops.def"
#undef PLIMSOLL_OP
};

enum class OpClass : std::uint8_t {
  unary,
  binary,
  ternary,
  creation,
  movement,
  contraction,
  reduction,
  irregular,
  control,
  structure,
  kernel,
  collective,
  async,
};

enum class ShapeRule : std::uint8_t { same, predicate, inferred, given };

// One row of ops.def.
struct OpInfo {
  std::string_view text;
  int fewest_operands;
  int most_operands;  // -1: any number
  OpClass op_class;
  ShapeRule shape_rule;
  bool has_side_effect;
};

const OpInfo& op_info(Opcode opcode);
int opcode_count();
inline std::string_view to_string(Opcode opcode) { return op_info(opcode).text; }
// Also takes the old spelling `cross-replica-sum`, and the `*-start`/`*-done` forms of the table.
std::optional<Opcode> parse_opcode(std::string_view text);

// One result element from the operand elements at the same index: unary, binary, ternary.
bool is_elementwise(Opcode opcode);

}  // namespace plimsoll::ir
