// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/derived_literal.h"
#include "runtime/passes/simplify/simplify_rules.h"

// Constants that are moved about: weights that a model has in one order of gates or dimensions and
// reads in another. Moved once, when the program is made, they take no time in any run. Elements
// are bytes here, so that each keeps its bits.
//
// A constant that is also read as it is would be there twice. So one is moved only if all that read
// it move constants, and together make no more of it than there is.

namespace plimsoll::passes {
namespace {

using ir::Instruction;
using ir::Literal;
using ir::Opcode;

// More would take too long at each start of a program.
constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;

bool is_constant(const Instruction& instruction) {
  if (instruction.opcode() != Opcode::constant || !instruction.shape().is_array()) return false;
  const auto& literal = instruction.attributes().literal;
  return literal != nullptr && !literal->is_elided();
}

bool moves_constants(const Instruction& instruction) {
  switch (instruction.opcode()) {
    case Opcode::slice:
    case Opcode::transpose:
    case Opcode::reverse:
    case Opcode::concatenate:
    case Opcode::reshape:
      break;
    default:
      return false;
  }
  return instruction.shape().element_count() > 0 &&
         std::all_of(instruction.operands().begin(), instruction.operands().end(),
                     [](const Instruction* operand) { return is_constant(*operand); });
}

bool is_used_up(const Instruction& constant) {
  if (constant.parent()->root() == &constant) return false;
  std::int64_t made = 0;
  for (const Instruction* user : constant.users()) {
    if (!moves_constants(*user)) return false;
    made += user->opcode() == Opcode::concatenate ? constant.shape().byte_size()
                                                  : user->shape().byte_size();
  }
  return made <= constant.shape().byte_size();
}

// Element (i, j, ...) of a dense array of `dims` comes from `from` + i * strides[0] + ..., in
// bytes.
void gather(const std::byte* from, const ir::Dims& dims, const std::vector<std::int64_t>& strides,
            std::int64_t element, std::byte* to) {
  const int rank = static_cast<int>(dims.size());
  if (rank == 0) {
    std::memcpy(to, from, at(element));
    return;
  }
  const std::int64_t row = dims[rank - 1], step = strides[at(rank - 1)];
  std::vector<std::int64_t> index(at(rank), 0);
  for (;;) {
    if (step == element) {
      std::memcpy(to, from, at(row * element));
    } else {
      for (std::int64_t i = 0; i < row; ++i) {
        std::memcpy(to + i * element, from + i * step, at(element));
      }
    }
    to += row * element;
    int d = rank - 2;
    for (; d >= 0; --d) {
      from += strides[at(d)];
      if (++index[at(d)] < dims[d]) break;
      from -= strides[at(d)] * dims[d];
      index[at(d)] = 0;
    }
    if (d < 0) return;
  }
}

Literal moved(const Instruction& move, std::int64_t element) {
  const Literal& operand = *move.operand(0)->attributes().literal;
  const ir::Attributes& attributes = move.attributes();
  const ir::Dims& dims = move.shape().dims();
  const int rank = static_cast<int>(dims.size());
  const ir::Dims of_operand = ir::row_major_strides(operand.shape().dims());
  std::vector<std::int64_t> strides(at(rank));
  std::int64_t start = 0;
  for (int d = 0; d < rank; ++d) {
    const std::int64_t stride = of_operand[d] * element;
    switch (move.opcode()) {
      case Opcode::slice:
        start += attributes.slice_starts[at(d)] * stride;
        strides[at(d)] =
            attributes.slice_strides.empty() ? stride : attributes.slice_strides[at(d)] * stride;
        break;
      case Opcode::transpose:
        strides[at(d)] = of_operand[static_cast<int>(attributes.dimensions[at(d)])] * element;
        break;
      default: {  // reverse
        const bool reversed = std::find(attributes.dimensions.begin(), attributes.dimensions.end(),
                                        d) != attributes.dimensions.end();
        start += reversed ? (dims[d] - 1) * stride : 0;
        strides[at(d)] = reversed ? -stride : stride;
      }
    }
  }
  return ir::derived_literal(move.shape(), {&move.operand(0)->attributes().literal, 1},
                             [=](std::span<const std::byte* const> from, std::span<std::byte> to) {
                               gather(from[0] + start, dims, strides, element, to.data());
                             });
}

// Part by part along the dimension: what of one part lies together in the result is copied at once.
Literal joined(const Instruction& move, std::int64_t element) {
  const auto along = static_cast<int>(move.attributes().dimensions[0]);
  const ir::Dims& dims = move.shape().dims();
  std::int64_t outer = 1, inner = element;
  for (int d = 0; d < along; ++d) outer *= dims[d];
  for (int d = along + 1; d < static_cast<int>(dims.size()); ++d) inner *= dims[d];
  std::vector<std::shared_ptr<const Literal>> parts;
  std::vector<std::int64_t> sizes;  // of a row of each
  for (const Instruction* operand : move.operands()) {
    parts.push_back(operand->attributes().literal);
    sizes.push_back(operand->shape().dim(along) * inner);
  }
  const std::int64_t row = dims[along] * inner;
  return ir::derived_literal(
      move.shape(), parts, [=](std::span<const std::byte* const> from, std::span<std::byte> to) {
        std::int64_t first = 0;
        for (std::size_t part = 0; part < from.size(); ++part) {
          for (std::int64_t i = 0; i < outer; ++i) {
            std::memcpy(to.data() + i * row + first, from[part] + i * sizes[part], at(sizes[part]));
          }
          first += sizes[part];
        }
      });
}

}  // namespace

Instruction* fold_moves(Rewriter& rewriter, Instruction& move) {
  if (!moves_constants(move) || move.shape().byte_size() > kMostBytes) return nullptr;
  for (const Instruction* operand : move.operands()) {
    if (!is_used_up(*operand)) return nullptr;
  }
  const std::int64_t elements = move.shape().element_count();
  const std::int64_t element = move.shape().byte_size() / elements;
  if (element * elements != move.shape().byte_size() || element == 0) return nullptr;
  if (move.opcode() == Opcode::reshape) {
    return rewriter.add_constant(move.operand(0)->attributes().literal->reshaped(move.shape()));
  }
  return rewriter.add_constant(move.opcode() == Opcode::concatenate ? joined(move, element)
                                                                    : moved(move, element));
}

}  // namespace plimsoll::passes
