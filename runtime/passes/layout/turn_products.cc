// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"

// (a b)^T is b^T a^T, and a product reads its operands in any order of dims: so one whose result is
// only read transposed is computed transposed. Gradients of weights come so: what JAX writes for
// that of x w is a product with the dims of w's result first, then a transpose, which would be a
// strided read inside the kernel that updates w, and keep that from being written over the
// gradient.
//
// Example: dot f32[m,n] of a f32[k,m] and b f32[k,n] over k, transposed to [n,m], is the dot of b
// and a over k.

namespace plimsoll::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

// The transpose has the batch dims of the dot first, then the free ones of its right operand, then
// those of the left, each in their order.
bool turns(const Instruction& transpose, const Instruction& dot) {
  const ir::DotDimensions& dims = *dot.attributes().dot;
  const auto batch = static_cast<std::int64_t>(dims.lhs_batch.size());
  const std::int64_t left =
      dot.operand(0)->shape().rank() - batch - std::ssize(dims.lhs_contracting);
  const std::int64_t right =
      dot.operand(1)->shape().rank() - batch - std::ssize(dims.rhs_contracting);
  if (left == 0 || right == 0) return false;
  const auto& from = transpose.attributes().dimensions;
  for (std::int64_t d = 0; d < std::ssize(from); ++d) {
    const std::int64_t free = d - batch;
    const std::int64_t wanted = free < 0       ? d
                                : free < right ? batch + left + free
                                               : batch + free - right;
    if (from[at(d)] != wanted) return false;
  }
  return true;
}

Instruction* turn_product(Rewriter& rewriter, Instruction& transpose) {
  if (transpose.opcode() != Opcode::transpose) return nullptr;
  Instruction* const dot = transpose.operand(0);
  if (dot->opcode() != Opcode::dot || dot->attributes().dot == nullptr ||
      dot->users().size() != 1 || dot == dot->parent()->root() || !turns(transpose, *dot)) {
    return nullptr;
  }
  const ir::DotDimensions& before = *dot->attributes().dot;
  auto dims = std::make_shared<ir::DotDimensions>();
  dims->lhs_contracting = before.rhs_contracting;
  dims->rhs_contracting = before.lhs_contracting;
  dims->lhs_batch = before.rhs_batch;
  dims->rhs_batch = before.lhs_batch;
  ir::Attributes attributes = dot->attributes();
  attributes.dot = std::move(dims);
  return rewriter.add(Opcode::dot, transpose.shape(), {dot->operand(1), dot->operand(0)},
                      std::move(attributes));
}

}  // namespace

Result<bool> turn_products(ir::Module& module) { return sweep_programs(module, turn_product); }

}  // namespace plimsoll::passes
