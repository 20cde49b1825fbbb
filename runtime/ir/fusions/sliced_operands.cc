// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/fusions/sliced_operands.h"

#include <algorithm>
#include <optional>

#include "runtime/base/index.h"
#include "runtime/ir/shown.h"

namespace plimsoll::ir {
namespace {

// Where a slice that is the same in every run begins in what it is taken of, in bytes; null: it
// goes over elements.
std::optional<std::int64_t> start_of(const Instruction& slice) {
  const Attributes& attributes = slice.attributes();
  const Shape& from = slice.operand(0)->shape();
  const Dims strides = row_major_strides(from.dims());
  std::int64_t elements = 0;
  for (int d = 0; d < from.rank(); ++d) {
    if (attributes.slice_strides[at(d)] != 1) return std::nullopt;
    elements += attributes.slice_starts[at(d)] * strides[d];
  }
  return elements * dtype_bytes(from.dtype());
}

}  // namespace

const Instruction* contiguous_slice(const Instruction& operand) {
  if (!operand.shape().is_array()) return nullptr;
  const Instruction& slice = *shown_by(&operand);
  const bool is_dynamic = slice.opcode() == Opcode::dynamic_slice;
  if (!is_dynamic && slice.opcode() != Opcode::slice) return nullptr;
  const Shape& from = slice.operand(0)->shape();
  const Dims &whole = from.dims(), &part = slice.shape().dims();
  if (!is_row_major(from) || !is_row_major(slice.shape()) || slice.shape().element_count() == 0) {
    return nullptr;
  }
  // Before the last dim that is cut there may be one of each only. Then the indices of the dims
  // from there on are all that moves the slice, by the elements behind each.
  int cut = whole.size() - 1;
  while (cut >= 0 && part[cut] == whole[cut]) --cut;
  if (cut < 0) return nullptr;
  for (int d = 0; d < cut; ++d) {
    if (part[d] != 1) return nullptr;
  }
  if (!is_dynamic) {
    const std::optional<std::int64_t> start = start_of(slice);
    return start.has_value() && *start % kSliceAlignment == 0 ? &slice : nullptr;
  }
  if (slice.operand_count() != 1 + whole.size()) return nullptr;
  std::int64_t behind = dtype_bytes(from.dtype());
  for (int d = cut + 1; d < whole.size(); ++d) behind *= whole[d];
  for (int d = 0; d <= cut; ++d) {
    if (!slice.operand(1 + d)->shape().is_scalar()) return nullptr;
  }
  return behind % kSliceAlignment == 0 ? &slice : nullptr;
}

bool has_sliced_operands(const Instruction& instruction) {
  if (instruction.opcode() != Opcode::fusion ||
      instruction.attributes().fusion_kind != FusionKind::custom ||
      instruction.called_computations().size() != 1) {
    return false;
  }
  const Instruction& root = *instruction.to_apply()->root();
  if (root.opcode() != Opcode::dot) return false;
  bool is_sliced = false;
  for (const Instruction* operand : root.operands()) {
    if (operand->opcode() == Opcode::parameter) continue;
    const Instruction* const slice = contiguous_slice(*operand);
    if (slice == nullptr) return false;
    const auto operands = slice->operands();
    if (operands[0]->opcode() != Opcode::parameter ||
        !std::all_of(operands.begin() + 1, operands.end(), [](const Instruction* index) {
          return index->opcode() == Opcode::parameter || index->opcode() == Opcode::constant;
        })) {
      return false;
    }
    is_sliced = true;
  }
  return is_sliced;
}

}  // namespace plimsoll::ir
