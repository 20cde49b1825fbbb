// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll::ir {

enum class Opcode : std::uint8_t {
#define PLIMSOLL_OP(number, name, ...) name,
#include "runtime/ir/ops.def"
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

// The dtypes that an elementwise operation accepts.
enum class Accepts : std::uint8_t { any, numeric, floating, integer, bits };

// What a vector loop runs for an element of the operation.
enum class VectorCode : std::uint8_t {
  moves,       // no more than the load
  strided,     // loads or stores apart from each other
  parts,       // several operands, chosen element by element
  one,         // an instruction or two
  several,     // a handful
  slow,        // a division or a square root
  polynomial,  // a polynomial in the value's own precision
  iterated,    // polynomials that wait for each other
  wide,        // a function that computes f32 in f64
  library,     // a call for every lane
};

// What a loop over elements makes of an operation.
enum class LoopRole : std::uint8_t {
  element,   // elementwise: from the operands' elements at the same place
  created,   // from no operand
  viewed,    // the operand's element at the same place in memory
  repeated,  // an operand's element for many places
  moved,     // one operand's element at another place
  parts,     // the element of one operand among several
  fetched,   // an element at a place that an operand says
  reduced,   // a loop of its own over many elements
  never,     // stands in no loop
};

// One row of ops.def.
struct OpInfo {
  std::string_view text;
  int fewest_operands;
  int most_operands;  // -1: any number
  OpClass op_class;
  ShapeRule shape_rule;
  bool has_side_effect;
  Accepts accepts;
  // What one element costs inside a loop, in additions at vector speed.
  double work;
  VectorCode code;
  LoopRole loop_role;
  bool is_exact;       // gives the same bits on every machine
  bool is_recordable;  // in eager traces
};

const OpInfo& op_info(Opcode opcode);
int opcode_count();
inline std::string_view to_string(Opcode opcode) { return op_info(opcode).text; }
// Also takes the old spelling `cross-replica-sum`, and the `*-start`/`*-done` forms of the table.
std::optional<Opcode> parse_opcode(std::string_view text);

// One result element from the operand elements at the same index: unary, binary, ternary.
bool is_elementwise(Opcode opcode);

}  // namespace plimsoll::ir
