// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/base/index.h"
#include "runtime/ir/shapes/builder.h"
#include "runtime/passes/collectives/participant_groups.h"
#include "runtime/passes/collectives/replication.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"

namespace plimsoll::passes {

using ir::Dims;
using ir::DType;
using ir::Groups;
using ir::Instruction;
using ir::Literal;
using ir::Opcode;
using ir::Shape;

namespace {

// One result for each operand, of its shape.
bool keeps_shapes(const Instruction& at) {
  const auto results = ir::leaves(at.shape());
  if (results.size() != plimsoll::at(at.operand_count())) return false;
  for (int i = 0; i < at.operand_count(); ++i) {
    if (!(at.operand(i)->shape() == *results[plimsoll::at(i)])) return false;
  }
  return true;
}

Instruction* operands_of(Rewriter& rewriter, Instruction& at) {
  if (!keeps_shapes(at)) return nullptr;
  return at.shape().is_tuple() ? rewriter.add(Opcode::tuple, at.shape(), at.operands())
                               : at.operand(0);
}

// Whether adding x to itself, once for each of `count` members, has the bits of their product. Sums
// of f16 and bf16 are exact in f32 until they are rounded. In f32 and f64, 2x and 4x are numbers of
// the dtype and 3x is rounded once; what is left of it in 3x + x is at most a tie, which goes to
// 4x.
bool sums_as_product(DType dtype, std::int64_t count) {
  if (ir::is_narrow(dtype)) return false;
  switch (dtype) {
    case DType::f16:
    case DType::bf16:
      return count <= 256;
    case DType::f32:
    case DType::f64:
      return count <= 4;
    default:
      return ir::is_integer(dtype);
  }
}

class CollectiveSimplifier {
 public:
  explicit CollectiveSimplifier(const ir::Module& module) : replication_(module) {}

  Instruction* operator()(Rewriter& rewriter, Instruction& at) const {
    switch (at.opcode()) {
      case Opcode::all_reduce:
      case Opcode::all_gather:
      case Opcode::reduce_scatter:
      case Opcode::all_to_all:
      case Opcode::collective_broadcast:
        break;
      case Opcode::collective_permute:
        return simplify_permute(rewriter, at);
      default:
        return nullptr;
    }
    const auto groups = ir::collective_groups(at);
    if (!groups.ok()) return nullptr;
    if (largest_group(*groups) == 1) return operands_of(rewriter, at);
    if (at.shape().is_tuple() || at.operand_count() != 1 ||
        !replication_.within(*at.operand(0), *groups)) {
      return nullptr;
    }
    switch (at.opcode()) {
      case Opcode::all_reduce:
        return simplify_reduction(rewriter, at, *groups);
      case Opcode::all_gather:
        return simplify_gather(rewriter, at, *groups);
      case Opcode::collective_broadcast:
        return operands_of(rewriter, at);
      default:
        return nullptr;
    }
  }

 private:
  static Instruction* simplify_permute(Rewriter& rewriter, Instruction& at) {
    const auto pairs = ir::permuted_participants(at);
    if (!pairs.ok() || at.operand_count() != 1) return nullptr;
    if (pairs->empty() && at.shape().is_array()) {
      return rewriter.add_splat(at.shape(), Literal(Shape(at.shape().dtype(), {})));
    }
    const bool stays = std::all_of(pairs->begin(), pairs->end(),
                                   [](const auto& p) { return p.first == p.second; });
    const auto participants = ir::topology_of(at).participants();
    if (!stays || static_cast<std::int64_t>(pairs->size()) != participants) return nullptr;
    return operands_of(rewriter, at);
  }

  static Instruction* simplify_reduction(Rewriter& rewriter, Instruction& at,
                                         const Groups& groups) {
    const ir::Computation& reducer = *at.to_apply();
    const DType dtype = at.shape().dtype();
    if (!keeps_shapes(at) || reducer.root()->shape().dtype() != dtype) return nullptr;
    for (const Opcode same : {Opcode::maximum, Opcode::minimum, Opcode::and_, Opcode::or_}) {
      if (ir::is_binary_computation(reducer, same)) return at.operand(0);
    }
    if (!ir::is_binary_computation(reducer, Opcode::add)) return nullptr;
    if (dtype == DType::pred) return at.operand(0);
    const std::size_t count = groups[0].size();
    const bool equal = std::all_of(groups.begin(), groups.end(),
                                   [&](const auto& group) { return group.size() == count; });
    if (!equal || !sums_as_product(dtype, static_cast<std::int64_t>(count))) return nullptr;
    Literal factor(Shape(dtype, {}));
    factor.set(0, static_cast<double>(count));
    return rewriter.add(Opcode::multiply, at.shape(),
                        {at.operand(0), rewriter.add_splat(at.shape(), factor)});
  }

  // Piece after piece along a dimension, which are all the same.
  static Instruction* simplify_gather(Rewriter& rewriter, Instruction& at, const Groups& groups) {
    const Shape& piece = at.operand(0)->shape();
    const auto dimension = static_cast<int>(at.attributes().dimensions[0]);
    const auto count = static_cast<std::int64_t>(groups[0].size());
    if (piece.rank() == ir::kMaxRank || at.shape().dim(dimension) != count * piece.dim(dimension)) {
      return nullptr;
    }
    Dims dims;
    ir::Attributes attributes;
    for (int i = 0; i < piece.rank(); ++i) {
      if (i == dimension) dims.push_back(count);
      attributes.dimensions.push_back(dims.size());
      dims.push_back(piece.dim(i));
    }
    Instruction* const spread = rewriter.add(Opcode::broadcast, Shape(piece.dtype(), dims),
                                             {at.operand(0)}, std::move(attributes));
    return rewriter.add(Opcode::reshape, at.shape(), {spread});
  }

  Replication replication_;
};

}  // namespace

Result<bool> simplify_collectives(ir::Module& module) {
  if (!are_countable(module)) return false;
  const CollectiveSimplifier simplifier(module);
  return sweep_programs(
      module, [&](Rewriter& rewriter, Instruction& at) { return simplifier(rewriter, at); });
}

}  // namespace plimsoll::passes
