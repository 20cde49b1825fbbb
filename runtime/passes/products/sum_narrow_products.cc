// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/shapes/builder.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/products/narrow_weights.h"
#include "runtime/passes/rewriter.h"

// A product reads its operands from memory. Weights of 8 bits that are converted for it are so
// written and read as floats, four times their bytes and more, and that is most of the time where
// they meet a row or two. As a sum over products of elements they are converted on the way: the
// kernel reads what they are made of, and nothing waits in memory. Products of f16 on CPUs widen
// panels of it, which pays for many rows only.
//
// Example: `y = dot(x, multiply(convert(w), scales))` of x f32[1,k], w s8[k,n] becomes
// `reduce(multiply(broadcast(x), multiply(convert(w), scales)))` over k.

namespace plimsoll::passes {
namespace {

using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;
using DimList = std::vector<std::int64_t>;

// Each row is a sum of its own in the kernel, which more of them would not fit.
constexpr std::int64_t kMostRows = 4, kMostRowsOfF16 = 2;
// Smaller ones stay in the caches, and short sums pay little for themselves.
constexpr std::int64_t kLeastWeights = 64 << 10;
constexpr std::int64_t kLeastDepth = 32;

bool is_narrow(const Instruction& weights, std::int64_t rows, NarrowProducts which) {
  return (which == NarrowProducts::converted_and_f16 && weights.shape().dtype() == DType::f16 &&
          rows <= kMostRowsOfF16) ||
         is_widened(weights, OnTheWay::elementwise);
}

// Null: it is no product of few rows by weights that are read as something narrower.
std::optional<ProductSides> few_rows_of(const Instruction& dot, NarrowProducts which) {
  for (const ProductSides& sides : sides_of(dot)) {
    const Instruction& weights = sides.weights_of(dot);
    if (sides.depth >= kLeastDepth && weights.shape().byte_size() >= kLeastWeights &&
        sides.row_count >= 1 && sides.row_count <= kMostRows &&
        is_narrow(weights, sides.row_count, which)) {
      return sides;
    }
  }
  return std::nullopt;
}

class Sums {
 public:
  Sums(Rewriter& rewriter, Instruction& dot, const ProductSides& sides)
      : rewriter_(rewriter), dot_(dot), sides_(sides) {}

  Instruction* make() {
    Instruction* const weights = as_f32(dot_.operand(1 - sides_.rows));
    const std::int64_t depth = sides_.depth;
    Instruction* const rows = as_f32(depth_last(dot_.operand(sides_.rows)));
    Instruction* const matrix = reshaped(rows, {sides_.row_count, depth});
    // As the result has them: rows first where they are the dot's left side.
    std::vector<Instruction*> made;
    for (std::int64_t i = 0; i < sides_.row_count; ++i) {
      ir::Attributes part;
      part.slice_starts = {i, 0};
      part.slice_limits = {i + 1, depth};
      part.slice_strides = {1, 1};
      Instruction* const row =
          rewriter_.add(Opcode::slice, Shape(DType::f32, {1, depth}), {matrix}, std::move(part));
      made.push_back(sum(reshaped(row, {depth}), weights));
    }
    Instruction* all = made[0];
    if (made.size() > 1) {
      const std::int64_t columns = all->shape().element_count(), count = std::ssize(made);
      const bool rows_first = sides_.rows == 0;
      for (Instruction*& one : made) {
        one = reshaped(one, rows_first ? DimList{1, columns} : DimList{columns, 1});
      }
      ir::Attributes joined;
      joined.dimensions = {rows_first ? 0 : 1};
      const DimList dims = rows_first ? DimList{count, columns} : DimList{columns, count};
      all = rewriter_.add(Opcode::concatenate, Shape(DType::f32, ir::Dims(dims)), made,
                          std::move(joined));
    }
    const ir::Dims& dims = dot_.shape().dims();
    Instruction* const shaped = reshaped(all, DimList(dims.begin(), dims.end()));
    if (dot_.shape().dtype() == DType::f32) return shaped;
    return rewriter_.add(Opcode::convert, dot_.shape(), {shaped});
  }

 private:
  Instruction* as_f32(Instruction* value) {
    if (value->shape().dtype() == DType::f32) return value;
    return rewriter_.add(Opcode::convert, Shape(DType::f32, value->shape().dims()), {value});
  }
  Instruction* reshaped(Instruction* value, const DimList& dims) {
    const Shape shape(DType::f32, ir::Dims(dims));
    return value->shape() == shape ? value : rewriter_.add(Opcode::reshape, shape, {value});
  }
  // The other dims keep their order.
  Instruction* depth_last(Instruction* value) {
    const Shape& shape = value->shape();
    if (sides_.rows_depth == shape.rank() - 1) return value;
    ir::Attributes order;
    DimList dims;
    for (std::int64_t d = 0; d <= shape.rank(); ++d) {
      const std::int64_t from = d < shape.rank() ? d : sides_.rows_depth;
      if (d == sides_.rows_depth) continue;
      order.dimensions.push_back(from);
      dims.push_back(shape.dim(static_cast<int>(from)));
    }
    return rewriter_.add(Opcode::transpose, Shape(shape.dtype(), ir::Dims(dims)), {value},
                         std::move(order));
  }
  Instruction* sum(Instruction* row, Instruction* weights) {
    ir::Attributes along;
    along.dimensions = {sides_.weights_depth};
    Instruction* const spread = rewriter_.add(Opcode::broadcast, weights->shape(), {row}, along);
    Instruction* const product =
        rewriter_.add(Opcode::multiply, weights->shape(), {spread, weights});
    DimList dims;
    for (int d = 0; d < weights->shape().rank(); ++d) {
      if (d != sides_.weights_depth) dims.push_back(weights->shape().dim(d));
    }
    Instruction* const zero = rewriter_.add_constant(ir::Literal(Shape(DType::f32, {})));
    Instruction* const made =
        rewriter_.add(Opcode::reduce, Shape(DType::f32, ir::Dims(dims)), {product, zero}, along);
    made->set_called_computations(
        {ir::scalar_computation(*rewriter_.computation().module(), Opcode::add, DType::f32)});
    return made;
  }

  Rewriter& rewriter_;
  Instruction& dot_;
  const ProductSides sides_;
};

}  // namespace

Result<bool> sum_narrow_products(ir::Module& module, NarrowProducts which) {
  return sweep_programs(module, [which](Rewriter& rewriter, Instruction& at) -> Instruction* {
    const std::optional<ProductSides> sides = few_rows_of(at, which);
    return sides.has_value() ? Sums(rewriter, at, *sides).make() : nullptr;
  });
}

}  // namespace plimsoll::passes
