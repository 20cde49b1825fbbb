// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "runtime/base/index.h"
#include "runtime/passes/simplify/simplify_rules.h"

namespace plimsoll::passes {

using ir::Attributes;
using ir::Instruction;
using ir::Literal;
using ir::Opcode;
using ir::PaddingDimension;
using ir::Shape;

namespace {

Instruction* add_slice(Rewriter& rewriter, const Shape& shape, Instruction* operand,
                       std::vector<std::int64_t> starts, std::vector<std::int64_t> limits,
                       std::vector<std::int64_t> strides) {
  Attributes attributes;
  attributes.slice_starts = std::move(starts);
  attributes.slice_limits = std::move(limits);
  attributes.slice_strides = std::move(strides);
  return rewriter.add(Opcode::slice, Shape(shape.dtype(), shape.dims()), {operand},
                      std::move(attributes));
}

// The operand of a concatenate that a slice lies in, and where that operand starts; null where the
// slice reaches over several.
Instruction* containing_operand(const Instruction& slice, std::int64_t& offset) {
  const Instruction& whole = *slice.operand(0);
  const auto along = at(whole.attributes().dimensions[0]);
  const std::int64_t start = slice.attributes().slice_starts[along];
  const std::int64_t limit = slice.attributes().slice_limits[along];
  offset = 0;
  for (Instruction* part : whole.operands()) {
    const std::int64_t size = part->shape().dim(static_cast<int>(along));
    if (start >= offset && limit <= offset + size) return part;
    offset += size;
  }
  return nullptr;
}

// A slice of a slice is one: element j of the outer one is element `start + j * stride` of the
// inner one, each in its own steps. With the inner one from 2 in steps of 3 (2, 5, 8, 11) and the
// outer one from 1 to 4 in steps of 2, it starts at 2 + 1 * 3 = 5 with steps of 6 and holds 5
// and 11. The limit is right behind the last element, as the inner one's may lie before a whole
// step more.
Instruction* simplify_slice(Rewriter& rewriter, Instruction& at) {
  Instruction* operand = at.operand(0);
  if (operand->shape() == at.shape()) return operand;  // of everything
  if (is_scalar_broadcast(*operand) && operand->operand(0)->shape().is_scalar()) {
    return rewriter.add(Opcode::broadcast, at.shape(), {operand->operand(0)});
  }
  std::vector<std::int64_t> starts = at.attributes().slice_starts;
  std::vector<std::int64_t> limits = at.attributes().slice_limits;
  std::vector<std::int64_t> strides = at.attributes().slice_strides;
  if (at.shape().element_count() == 0) return nullptr;
  if (operand->opcode() == Opcode::slice) {
    const Attributes& inner = operand->attributes();
    for (std::size_t i = 0; i < starts.size(); ++i) {
      starts[i] = inner.slice_starts[i] + starts[i] * inner.slice_strides[i];
      strides[i] *= inner.slice_strides[i];
      limits[i] = starts[i] + (at.shape().dim(static_cast<int>(i)) - 1) * strides[i] + 1;
    }
    return add_slice(rewriter, at.shape(), operand->operand(0), std::move(starts),
                     std::move(limits), std::move(strides));
  }
  if (operand->opcode() == Opcode::concatenate) {
    std::int64_t offset = 0;
    Instruction* part = containing_operand(at, offset);
    if (part == nullptr) return nullptr;
    const auto along = static_cast<std::size_t>(operand->attributes().dimensions[0]);
    starts[along] -= offset;
    limits[along] -= offset;
    return add_slice(rewriter, at.shape(), part, std::move(starts), std::move(limits),
                     std::move(strides));
  }
  return nullptr;
}

// The value of an integer scalar constant; none for u64, which may not fit.
std::optional<std::int64_t> integer_constant(const Instruction& index) {
  const Literal* literal = splat_value(index);
  if (literal == nullptr || !index.shape().is_scalar() || index.shape().dtype() == ir::DType::u64) {
    return std::nullopt;
  }
  if (index.shape().dtype() == ir::DType::s64) return literal->data<std::int64_t>()[0];
  return static_cast<std::int64_t>(literal->at(0));
}

// With constant starts, or none to choose, it is a slice. Starts are moved into the array as HLO
// has it: of 10 elements, 4 from 8 on are the 4 from 6 on.
Instruction* simplify_dynamic_slice(Rewriter& rewriter, Instruction& at) {
  Instruction* operand = at.operand(0);
  if (operand->shape() == at.shape()) return operand;
  std::vector<std::int64_t> starts, limits;
  for (int i = 0; i < at.shape().rank(); ++i) {
    const std::int64_t slack = operand->shape().dim(i) - at.shape().dim(i);
    const auto start = integer_constant(*at.operand(1 + i));
    if (!start && slack > 0) return nullptr;
    starts.push_back(slack > 0 ? std::clamp<std::int64_t>(*start, 0, slack) : 0);
    limits.push_back(starts.back() + at.shape().dim(i));
  }
  std::vector<std::int64_t> strides(starts.size(), 1);
  return add_slice(rewriter, at.shape(), operand, std::move(starts), std::move(limits),
                   std::move(strides));
}

Instruction* simplify_concatenate(Rewriter& rewriter, Instruction& at) {
  if (at.operand_count() == 1) return at.operand(0);
  const int along = static_cast<int>(at.attributes().dimensions[0]);
  std::vector<Instruction*> parts;
  bool changed = false;
  for (Instruction* operand : at.operands()) {
    if (operand->shape().dim(along) == 0) {
      changed = true;
    } else if (operand->opcode() == Opcode::concatenate && operand->users().size() == 1 &&
               operand->attributes().dimensions[0] == along) {
      parts.insert(parts.end(), operand->operands().begin(), operand->operands().end());
      changed = true;
    } else {
      parts.push_back(operand);
    }
  }
  if (parts.empty()) return at.operand(0);
  if (parts.size() == 1 && parts[0]->shape() == at.shape()) return parts[0];
  if (!changed) return nullptr;
  Attributes attributes;
  attributes.dimensions = {along};
  return rewriter.add(Opcode::concatenate, at.shape(), std::move(parts), std::move(attributes));
}

Instruction* simplify_pad(Rewriter& rewriter, Instruction& at) {
  Instruction* operand = at.operand(0);
  const auto& padding = at.attributes().padding;
  const bool none = std::all_of(padding.begin(), padding.end(),
                                [](const PaddingDimension& p) { return p == PaddingDimension{}; });
  if (none) return operand;
  if (operand->shape().element_count() == 0) {
    return rewriter.add(Opcode::broadcast, at.shape(), {at.operand(1)});
  }
  // Negative padding alone is a slice.
  std::vector<std::int64_t> starts, limits;
  for (std::size_t i = 0; i < padding.size(); ++i) {
    const std::int64_t size = operand->shape().dim(static_cast<int>(i));
    if (padding[i].low > 0 || padding[i].high > 0 || padding[i].interior > 0) return nullptr;
    starts.push_back(-padding[i].low);
    limits.push_back(size + padding[i].high);
    if (starts.back() > limits.back()) return nullptr;
  }
  std::vector<std::int64_t> strides(starts.size(), 1);
  return add_slice(rewriter, at.shape(), operand, std::move(starts), std::move(limits),
                   std::move(strides));
}

}  // namespace

Instruction* simplify_slicing(Rewriter& rewriter, Instruction& at) {
  switch (at.opcode()) {
    case Opcode::slice:
      return simplify_slice(rewriter, at);
    case Opcode::dynamic_slice:
      return simplify_dynamic_slice(rewriter, at);
    case Opcode::dynamic_update_slice:
      // An update of everything starts at 0, whatever the indices.
      return at.operand(1)->shape() == at.shape() ? at.operand(1) : nullptr;
    case Opcode::concatenate:
      return simplify_concatenate(rewriter, at);
    case Opcode::pad:
      return simplify_pad(rewriter, at);
    default:
      return nullptr;
  }
}

}  // namespace plimsoll::passes
