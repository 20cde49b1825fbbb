// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/base/index.h"
#include "runtime/ir/participants.h"
#include "runtime/passes/collectives/participant_groups.h"
#include "runtime/passes/collectives/participant_number.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"

namespace plimsoll::passes {

using ir::Groups;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

namespace {

// The one dimension in which a slice has less than what it is of; -1: there are others, or none.
int sliced_dimension(const Shape& whole, const Shape& part) {
  int found = -1;
  for (int i = 0; i < whole.rank(); ++i) {
    if (whole.dim(i) == part.dim(i)) continue;
    if (found >= 0) return -1;
    found = i;
  }
  return found;
}

// Each member of a group reads the piece of its own place among them.
bool reads_own_pieces(const Instruction& slice, int dimension, const Groups& groups) {
  const Shape& whole = slice.operand(0)->shape();
  const std::int64_t piece = slice.shape().dim(dimension);
  const std::int64_t last = whole.dim(dimension) - piece;
  const bool one_vector = slice.operand_count() == 2 && !slice.operand(1)->shape().is_scalar();
  if (one_vector && whole.rank() != 1) return false;
  const Instruction& start = *slice.operand(one_vector ? 1 : dimension + 1);
  for (const auto& group : groups) {
    if (static_cast<std::int64_t>(group.size()) * piece != whole.dim(dimension)) return false;
    for (std::size_t place = 0; place < group.size(); ++place) {
      const auto number = number_in(start, group[place]);
      if (!number.has_value() ||
          std::clamp<std::int64_t>(*number, 0, last) != static_cast<std::int64_t>(place) * piece) {
        return false;
      }
    }
  }
  return true;
}

Instruction* scatter_reduction(Rewriter& rewriter, Instruction& at) {
  if (at.opcode() != Opcode::dynamic_slice) return nullptr;
  Instruction& reduction = *at.operand(0);
  if (reduction.opcode() != Opcode::all_reduce || !reduction.shape().is_array() ||
      reduction.users().size() != 1 || reduction.is_root() || reduction.operand_count() != 1 ||
      !(reduction.operand(0)->shape() == reduction.shape()) ||
      !reduction.control_predecessors().empty() || !reduction.control_successors().empty()) {
    return nullptr;
  }
  const int dimension = sliced_dimension(reduction.shape(), at.shape());
  if (dimension < 0) return nullptr;
  const auto groups = ir::collective_groups(reduction);
  if (!groups.ok() || !reads_own_pieces(at, dimension, *groups)) return nullptr;
  ir::Attributes attributes;
  attributes.collective = reduction.attributes().collective;
  attributes.dimensions = {dimension};
  Instruction* const made = rewriter.add(Opcode::reduce_scatter, at.shape(), {reduction.operand(0)},
                                         std::move(attributes));
  made->set_called_computations(reduction.called_computations());
  return made;
}

}  // namespace

Result<bool> create_reduce_scatters(ir::Module& module) {
  if (!are_countable(module)) return false;
  return sweep_programs(module, scatter_reduction);
}

}  // namespace plimsoll::passes
