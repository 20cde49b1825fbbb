// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/passes/simplify/simplify_rules.h"

namespace plimsoll::passes {
namespace {

using ir::Attributes;
using ir::Dims;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;
using Ints = std::vector<std::int64_t>;

// Dtypes whose products a dot rounds once, as a multiplication does.
bool is_multiplied_alike(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::bf16 ||
         dtype == DType::f16 || (ir::is_integer(dtype) && ir::dtype_bytes(dtype) >= 4);
}

// An operand without its contracted dims, which have one element, spread to the dot's result:
// `place` says where its other dims go.
Instruction* spread(Rewriter& rewriter, Instruction* operand, const Ints& contracted,
                    const Ints& place, const Shape& result) {
  const Dims& dims = operand->shape().dims();
  Ints kept, places;
  for (int d = 0; d < dims.size(); ++d) {
    if (std::find(contracted.begin(), contracted.end(), d) != contracted.end()) continue;
    kept.push_back(dims[d]);
    places.push_back(place[at(d)]);
  }
  const DType dtype = operand->shape().dtype();
  Instruction* value = rewriter.add(Opcode::reshape, Shape(dtype, kept), {operand});
  // In the order of the result.
  Ints order(kept.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  std::sort(order.begin(), order.end(),
            [&](std::int64_t a, std::int64_t b) { return places[at(a)] < places[at(b)]; });
  if (!std::is_sorted(order.begin(), order.end())) {
    Ints turned;
    for (const std::int64_t d : order) turned.push_back(kept[at(d)]);
    Attributes transpose;
    transpose.dimensions = order;
    value = rewriter.add(Opcode::transpose, Shape(dtype, turned), {value}, std::move(transpose));
  }
  if (at(result.rank()) == kept.size()) return value;
  std::sort(places.begin(), places.end());
  Attributes broadcast;
  broadcast.dimensions = std::move(places);
  return rewriter.add(Opcode::broadcast, Shape(dtype, result.dims()), {value},
                      std::move(broadcast));
}

}  // namespace

// A dot each of whose elements is one product: outer products, and products element by element, as
// sparse matrices are multiplied. It begins with +0, to which the product is added.
Instruction* simplify_products(Rewriter& rewriter, Instruction& at) {
  if (at.opcode() != Opcode::dot || at.operand_count() != 2) return nullptr;
  const DType dtype = at.shape().dtype();
  Instruction *const lhs = at.operand(0), *const rhs = at.operand(1);
  if (!is_multiplied_alike(dtype) || lhs->shape().dtype() != dtype ||
      rhs->shape().dtype() != dtype || at.shape().element_count() == 0) {
    return nullptr;
  }
  const ir::DotDimensions& dims = *at.attributes().dot;
  for (const std::int64_t d : dims.lhs_contracting) {
    if (lhs->shape().dim(static_cast<int>(d)) != 1) return nullptr;
  }
  // The result's dims are the batch's, then what is left of the left operand, then of the right.
  auto free = static_cast<std::int64_t>(dims.lhs_batch.size());
  const auto places = [&](const Shape& shape, const Ints& batch, const Ints& contracted) {
    Ints place(plimsoll::at(shape.rank()), -1);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      place[plimsoll::at(batch[i])] = static_cast<std::int64_t>(i);
    }
    for (const std::int64_t d : contracted) place[plimsoll::at(d)] = -2;
    for (std::int64_t& p : place) {
      if (p == -1) p = free++;
    }
    return place;
  };
  const Ints left = places(lhs->shape(), dims.lhs_batch, dims.lhs_contracting);
  const Ints right = places(rhs->shape(), dims.rhs_batch, dims.rhs_contracting);
  Instruction* const product =
      rewriter.add(Opcode::multiply, at.shape(),
                   {spread(rewriter, lhs, dims.lhs_contracting, left, at.shape()),
                    spread(rewriter, rhs, dims.rhs_contracting, right, at.shape())});
  if (ir::is_integer(dtype)) return product;
  ir::Literal zero(Shape(dtype, {}));
  zero.set(0, 0);
  return rewriter.add(Opcode::add, at.shape(), {product, rewriter.add_splat(at.shape(), zero)});
}

}  // namespace plimsoll::passes
