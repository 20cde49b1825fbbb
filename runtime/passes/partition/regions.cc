// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/partition/regions.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/passes/partition/mesh_text.h"

namespace plimsoll::passes {

using ir::Instruction;
using ir::Opcode;
using ir::Shape;
using ir::Sharding;

namespace {

bool is_call_of(const Instruction& instruction, std::string_view target) {
  return instruction.opcode() == Opcode::custom_call &&
         instruction.attributes().custom_call_target == target;
}

bool leaves_region(const Instruction& instruction) {
  return is_call_of(instruction, "SPMDShardToFullShape") ||
         is_call_of(instruction, "xla.sdy.LocalToGlobalShape");
}

// Of a `Sharding` in front of what enters, of the call itself where it leaves; or of all values in
// Shardy's words.
Result<std::vector<Sharding>> shardings_of(const Instruction& border) {
  if (border.attributes().custom_call_target.starts_with("xla.sdy.")) {
    return read_mesh_shardings(
        border, enters_region(border) ? "xla.sdy.in_shardings" : "xla.sdy.out_shardings");
  }
  const Instruction& says = enters_region(border) ? *border.operand(0) : border;
  const std::string_view text = says.attributes().find_extra("sharding");
  if (text.empty()) return std::vector<Sharding>(1);
  const int rank = says.shape().is_array() ? says.shape().rank() : 0;
  PLIMSOLL_ASSIGN_OR_RETURN(
      Sharding one, ir::parse_sharding(text, rank, border.parent()->module()->num_partitions));
  return std::vector<Sharding>(1, std::move(one));
}

Result<Instruction*> cross(Instruction& border, KnownTiles& tiles) {
  PLIMSOLL_ASSIGN_OR_RETURN(const std::vector<Sharding> shardings, shardings_of(border));
  const bool is_tuple = border.shape().is_tuple();
  const std::size_t count = is_tuple ? border.shape().elements().size() : 1;
  if (count != border.operands().size() || shardings.size() != count) {
    return invalid_argument("has another number of operands, results and shardings");
  }
  std::vector<Instruction*> made;
  for (std::size_t i = 0; i < count; ++i) {
    const Shape& shape = is_tuple ? border.shape().elements()[i] : border.shape();
    Instruction* one = border.operand(static_cast<int>(i));
    if (enters_region(border)) {
      PLIMSOLL_ASSIGN_OR_RETURN(one, tiles.tile_of(one, shardings[i]));
    } else {
      while (is_sharding_mark(*one)) one = one->operand(0);
      PLIMSOLL_ASSIGN_OR_RETURN(one, tiles.add_whole_of(one, shape, shardings[i]));
    }
    if (!(one->shape() == shape)) {
      return invalid_argument("makes " + shape.to_string() + " of what is " +
                              one->shape().to_string() + " by its sharding (" +
                              std::to_string(border.parent()->module()->num_partitions) +
                              " partitions; --partitions changes them)");
    }
    made.push_back(one);
  }
  return is_tuple ? border.parent()->add_tuple(made) : made[0];
}

}  // namespace

bool enters_region(const Instruction& instruction) {
  return is_call_of(instruction, "SPMDFullToShardShape") ||
         is_call_of(instruction, "xla.sdy.GlobalToLocalShape");
}

bool is_region_border(const Instruction& instruction) {
  return enters_region(instruction) || leaves_region(instruction);
}

Result<Instruction*> cross_region_border(Instruction& border, KnownTiles& tiles) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instruction * made, [&]() -> Result<Instruction*> {
    auto crossed = cross(border, tiles);
    if (crossed.ok()) return crossed;
    return crossed.status().with_context("'" + border.name() + "'");
  }());
  return made;
}

}  // namespace plimsoll::passes
