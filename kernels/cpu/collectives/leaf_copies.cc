// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/collectives/leaf_copies.h"

#include <algorithm>
#include <string>

#include "kernels/cpu/collectives/many_participants.h"
#include "runtime/base/index.h"
#include "runtime/ir/participants.h"

namespace plimsoll::kernels {
namespace {

using ir::Opcode;

std::vector<const ir::Shape*> input_leaves(const ir::Instruction& instruction) {
  std::vector<const ir::Shape*> in;
  for (const ir::Instruction* operand : instruction.operands()) {
    for (const ir::Shape* leaf : ir::leaves(operand->shape())) in.push_back(leaf);
  }
  return in;
}

LeafCopy zeros(const ir::Shape& shape) {
  if (!shape.is_array()) return {};
  return {-1, shape.dtype(), shape.dtype(), shape.element_count()};
}

void append_zeros(const ir::Shape& shape, std::vector<LeafCopy>& copies) {
  for (const ir::Shape* leaf : ir::leaves(shape)) copies.push_back(zeros(*leaf));
}

// Appends copies of input leaves from `first` on for the leaves of `shape`.
Status append_copies(const ir::Instruction& instruction, const std::vector<const ir::Shape*>& in,
                     std::size_t first, const ir::Shape& shape, std::vector<LeafCopy>& copies) {
  for (const ir::Shape* to : ir::leaves(shape)) {
    if (first >= in.size()) return unsupported(instruction, "more results than operands");
    const ir::Shape& from = *in[first];
    if (!to->is_array() || !from.is_array()) {
      copies.push_back({});
    } else if (from.dims() != to->dims()) {
      return unsupported(instruction,
                         from.to_string() + " to " + to->to_string() + " with one participant");
    } else {
      copies.push_back({static_cast<int>(first), from.dtype(), to->dtype(), to->element_count()});
    }
    ++first;
  }
  return ok_status();
}

// Whether the only participant receives anything; who is no target gets zeros.
bool permute_receives(const ir::Instruction& instruction) {
  const auto& collective = instruction.attributes().collective;
  return collective != nullptr && !collective->source_target_pairs.empty();
}

// A start half's result: (operands, result, contexts...); copy-start has (result, operand,
// context).
Status check_start(const ir::Instruction& instruction) {
  const ir::Shape& shape = instruction.shape();
  if (shape.is_tuple() && shape.elements().size() >= 2) return ok_status();
  return unsupported(instruction, "result " + shape.to_string());
}

}  // namespace

Result<bool> meets_others(const ir::Instruction& instruction) {
  switch (instruction.opcode()) {
    case Opcode::all_reduce:
    case Opcode::all_gather:
    case Opcode::reduce_scatter:
    case Opcode::all_to_all:
    case Opcode::collective_broadcast:
    case Opcode::all_reduce_start:
    case Opcode::all_gather_start: {
      PLIMSOLL_ASSIGN_OR_RETURN(const ir::Groups groups, ir::collective_groups(instruction));
      return std::any_of(groups.begin(), groups.end(),
                         [](const auto& group) { return group.size() > 1; });
    }
    case Opcode::collective_permute:
    case Opcode::collective_permute_start: {
      PLIMSOLL_RETURN_IF_ERROR(ir::permuted_participants(instruction).status());
      return ir::topology_of(instruction).participants() > 1;
    }
    default:
      return false;
  }
}

Result<StartCopies> start_copies(const ir::Instruction& instruction) {
  PLIMSOLL_RETURN_IF_ERROR(check_start(instruction));
  const auto& elements = instruction.shape().elements();
  StartCopies made;
  PLIMSOLL_RETURN_IF_ERROR(
      append_copies(instruction, input_leaves(instruction), 0, elements[0], made.copies));
  made.result_leaf = made.copies.size();
  made.result_count = at(ir::leaf_count(elements[1]));
  made.copies.resize(made.result_leaf + made.result_count);
  for (std::size_t i = 2; i < elements.size(); ++i) append_zeros(elements[i], made.copies);
  return made;
}

Result<const ir::Instruction*> async_operation(const ir::Instruction& instruction) {
  if (instruction.called_computations().size() != 1)
    return unsupported(instruction, "no called computation");
  const ir::Computation& computation = *instruction.called(0);
  const ir::Instruction& root = *computation.root();
  bool plain = root.operands().size() == computation.parameters().size() &&
               static_cast<std::size_t>(computation.instruction_count()) ==
                   computation.parameters().size() + 1;
  for (std::size_t i = 0; plain && i < computation.parameters().size(); ++i)
    plain = root.operands()[i] == computation.parameters()[i];
  if (plain) return &root;
  return unsupported(instruction, "computation " + computation.name() +
                                      " (one operation with a kernel is supported)");
}

Result<std::vector<LeafCopy>> leaf_copies(const ir::Instruction& instruction) {
  const Opcode opcode = instruction.opcode();
  const std::vector<const ir::Shape*> in = input_leaves(instruction);
  const ir::Shape& shape = instruction.shape();
  std::vector<LeafCopy> copies;
  switch (opcode) {
    case Opcode::collective_permute:
      if (!permute_receives(instruction)) {
        append_zeros(shape, copies);
        break;
      }
      [[fallthrough]];
    case Opcode::all_reduce:
    case Opcode::all_gather:
    case Opcode::reduce_scatter:
    case Opcode::all_to_all:
    case Opcode::collective_broadcast:
    case Opcode::all_reduce_start:
    case Opcode::all_reduce_done:
    case Opcode::async_update:
      PLIMSOLL_RETURN_IF_ERROR(append_copies(instruction, in, 0, shape, copies));
      break;
    case Opcode::all_gather_start:
    case Opcode::collective_permute_start:
    case Opcode::copy_start: {
      PLIMSOLL_RETURN_IF_ERROR(check_start(instruction));
      const bool receives =
          opcode != Opcode::collective_permute_start || permute_receives(instruction);
      for (std::size_t i = 0; i < shape.elements().size(); ++i) {
        const ir::Shape& element = shape.elements()[i];
        if (i > 1 || (i == 1 && !receives)) {
          append_zeros(element, copies);
        } else {
          PLIMSOLL_RETURN_IF_ERROR(append_copies(instruction, in, 0, element, copies));
        }
      }
      break;
    }
    case Opcode::copy_done:
    case Opcode::all_gather_done:
    case Opcode::collective_permute_done:
    case Opcode::async_done: {
      const ir::Shape& operand = instruction.operand(0)->shape();
      const int element = opcode == Opcode::copy_done ? 0 : 1;
      if (!operand.is_tuple() || static_cast<int>(operand.elements().size()) <= element)
        return unsupported(instruction, "operand " + operand.to_string());
      const auto first = at(ir::leaf_offset(operand, element));
      PLIMSOLL_RETURN_IF_ERROR(append_copies(instruction, in, first, shape, copies));
      break;
    }
    default:
      return unsupported(instruction, "transfers to and from outside");
  }
  return copies;
}

}  // namespace plimsoll::kernels
