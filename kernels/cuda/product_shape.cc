// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/product_shape.h"

#include <algorithm>
#include <limits>

#include "kernels/cpu/contraction/dot_shape.h"
#include "runtime/base/index.h"

namespace plimsoll::kernels::cuda {
namespace {

using ir::DType;

bool multiplies(DType lhs, DType rhs, DType result, std::int64_t k) {
  if (lhs != rhs) return false;
  switch (lhs) {
    case DType::f32:
    case DType::f64:
      return result == lhs;
    case DType::f16:
    case DType::bf16:
      return result == lhs || result == DType::f32;
    case DType::s8:
      // Products are at most 2^14; whether sums wrap is not ours to say.
      return result == DType::s32 && k < std::int64_t{1} << 17;
    default:
      return false;
  }
}

ProductOperand operand_of(const MatrixView& view) {
  ProductOperand operand;
  operand.is_transposed = view.column_stride != 1;
  operand.leading = operand.is_transposed ? view.column_stride : view.row_stride;
  return operand;
}

// Batch dims as few as one stride each allows on both sides, major to minor. Dims of size 1 do not
// matter.
std::vector<ProductTurn> batches_of(const DotShape& shape) {
  std::vector<ProductTurn> found;
  std::int64_t result_stride = shape.m * shape.n;
  for (std::size_t i = shape.batch_dims.size(); i-- > 0;) {
    const std::int64_t size = shape.batch_dims[i];
    if (size == 1) continue;
    const std::int64_t lhs = shape.lhs.batch_strides[i], rhs = shape.rhs.batch_strides[i];
    if (!found.empty() && lhs == found.back().count * found.back().lhs_stride &&
        rhs == found.back().count * found.back().rhs_stride) {
      found.back().count *= size;
    } else {
      found.push_back({size, lhs, rhs, result_stride});
    }
    result_stride *= size;
  }
  std::reverse(found.begin(), found.end());
  return found;
}

}  // namespace

std::int64_t ProductShape::calls() const {
  std::int64_t count = 1;
  for (const ProductTurn& turn : turns) count *= turn.count;
  return count;
}

std::optional<ProductShape> read_product(const ir::Instruction& dot) {
  const DotShape read = read_dot(dot);
  const DType lhs = dot.operand(0)->shape().dtype(), rhs = dot.operand(1)->shape().dtype();
  if (!multiplies(lhs, rhs, dot.shape().dtype(), read.k)) return std::nullopt;
  if (read.lhs.needs_copy || read.rhs.needs_copy) return std::nullopt;
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  for (const std::int64_t size : {read.m, read.n, read.k, read.batch}) {
    if (size < 1 || size > kMost) return std::nullopt;
  }
  ProductShape shape;
  shape.operands = lhs;
  shape.result = dot.shape().dtype();
  shape.m = read.m;
  shape.n = read.n;
  shape.k = read.k;
  shape.lhs = operand_of(read.lhs);
  shape.rhs = operand_of(read.rhs);
  shape.turns = batches_of(read);
  if (shape.turns.empty()) return shape;
  // The longest of them is one call's.
  const auto longest =
      std::max_element(shape.turns.begin(), shape.turns.end(),
                       [](const auto& one, const auto& other) { return one.count < other.count; });
  shape.batch = longest->count;
  shape.lhs.batch_stride = longest->lhs_stride;
  shape.rhs.batch_stride = longest->rhs_stride;
  shape.result_batch_stride = longest->result_stride;
  shape.turns.erase(longest);
  if (shape.calls() > kMostProductCalls) return std::nullopt;
  return shape;
}

}  // namespace plimsoll::kernels::cuda
