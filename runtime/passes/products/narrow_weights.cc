// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/products/narrow_weights.h"

#include <algorithm>
#include <utility>

#include "runtime/base/pointer_set.h"

namespace plimsoll::passes {
namespace {

using ir::DType;
using ir::Instruction;
using ir::Opcode;

constexpr std::size_t kLargestExpression = 32;

bool is_short_float(const ir::Shape& shape) {
  return shape.is_array() && (shape.dtype() == DType::f32 || shape.dtype() == DType::bf16 ||
                              shape.dtype() == DType::f16);
}

bool is_computed_so(const Instruction& value, OnTheWay what) {
  if (!value.shape().is_array() || value.is_root() || !value.control_predecessors().empty() ||
      !value.control_successors().empty()) {
    return false;
  }
  return ir::is_elementwise(value.opcode()) || value.opcode() == Opcode::broadcast ||
         value.opcode() == Opcode::reshape ||
         (value.opcode() == Opcode::concatenate && what == OnTheWay::joined);
}

}  // namespace

std::vector<ProductSides> sides_of(const Instruction& dot) {
  if (dot.opcode() != Opcode::dot || dot.attributes().dot == nullptr ||
      !is_short_float(dot.shape()) || !is_short_float(dot.operand(0)->shape()) ||
      !is_short_float(dot.operand(1)->shape()) || dot.operand(0) == dot.operand(1)) {
    return {};
  }
  const ir::DotDimensions& dims = *dot.attributes().dot;
  if (!dims.lhs_batch.empty() || dims.lhs_contracting.size() != 1) return {};
  std::vector<ProductSides> all;
  for (const int rows : {0, 1}) {
    ProductSides sides{rows, 0, 0, dims.lhs_contracting[0], dims.rhs_contracting[0]};
    if (rows == 1) std::swap(sides.rows_depth, sides.weights_depth);
    const ir::Shape& shape = sides.rows_of(dot).shape();
    sides.depth = shape.dim(static_cast<int>(sides.rows_depth));
    if (sides.depth == 0) return {};
    sides.row_count = shape.element_count() / sides.depth;
    all.push_back(sides);
  }
  return all;
}

bool is_on_the_way(const Instruction& value, OnTheWay what) {
  return is_computed_so(value, what) && value.users().size() == 1;
}

std::optional<std::int64_t> bytes_behind(const Instruction& weights, OnTheWay what) {
  const auto& readers = weights.users();
  if (!is_computed_so(weights, what) ||
      !std::all_of(readers.begin(), readers.end(),
                   [](const Instruction* reader) { return reader->opcode() == Opcode::dot; })) {
    return std::nullopt;
  }
  std::vector<const Instruction*> open{weights.operands().begin(), weights.operands().end()};
  PointerSet<const Instruction> seen;
  std::int64_t bytes = 0;
  std::size_t computed = 1;
  while (!open.empty()) {
    const Instruction* const next = open.back();
    open.pop_back();
    if (!seen.insert(next)) continue;
    if (!is_on_the_way(*next, what)) {
      bytes += next->shape().byte_size();
      continue;
    }
    if (++computed > kLargestExpression) return std::nullopt;
    open.insert(open.end(), next->operands().begin(), next->operands().end());
  }
  return bytes;
}

bool is_widened(const Instruction& weights, OnTheWay what) {
  const auto bytes = bytes_behind(weights, what);
  return bytes.has_value() && 8 * *bytes <= 5 * weights.shape().byte_size();
}

}  // namespace plimsoll::passes
