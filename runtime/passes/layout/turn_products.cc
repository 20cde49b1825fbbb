// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

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
//
// For the same reason an operand that is only transposed for products is read as it was before:
// x w^T, of weights that are kept the other way round, makes no copy of w.
//
// Example: dot of x f32[m,k] and the transpose of w f32[n,k] over dims 1 and 0 is the dot of x and
// w over dims 1 and 1.

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

using Dims = std::vector<std::int64_t>;

// The dims of a dot's operand by what the dot does with them.
struct OperandDims {
  Dims ir::DotDimensions::* batch;
  Dims ir::DotDimensions::* contracting;
};

constexpr OperandDims kOperands[] = {
    {&ir::DotDimensions::lhs_batch, &ir::DotDimensions::lhs_contracting},
    {&ir::DotDimensions::rhs_batch, &ir::DotDimensions::rhs_contracting}};

// The operand is a batch of matrices whose rows and columns alone a transpose exchanged. Others
// would be read in strides, or copied.
bool is_turned_matrix(const Instruction& dot, int index) {
  if (dot.opcode() != Opcode::dot || dot.attributes().dot == nullptr) return false;
  const Instruction& operand = *dot.operand(index);
  if (operand.opcode() != Opcode::transpose) return false;
  const std::int64_t rank = operand.shape().rank();
  const Dims& batch = (*dot.attributes().dot).*kOperands[index].batch;
  const Dims& contracting = (*dot.attributes().dot).*kOperands[index].contracting;
  const auto batch_dims = std::ssize(batch);
  if (rank != batch_dims + 2 || contracting.size() != 1) return false;
  const auto& from = operand.attributes().dimensions;
  for (std::int64_t d = 0; d < batch_dims; ++d) {
    if (batch[at(d)] != d || from[at(d)] != d) return false;
  }
  return from[at(batch_dims)] == batch_dims + 1 && from[at(batch_dims + 1)] == batch_dims;
}

// No other reader asks for the transposed array, which would be made beside what it is made of.
bool is_for_products_alone(const Instruction& transpose) {
  if (&transpose == transpose.parent()->root()) return false;
  for (const Instruction* user : transpose.users()) {
    for (int i = 0; i < std::ssize(user->operands()); ++i) {
      if (user->operand(i) != &transpose) continue;
      if (i > 1 || !is_turned_matrix(*user, i)) return false;
    }
  }
  return true;
}

Instruction* read_untransposed(Rewriter& rewriter, Instruction& dot) {
  if (dot.opcode() != Opcode::dot) return nullptr;
  std::vector<Instruction*> operands = {dot.operand(0), dot.operand(1)};
  std::shared_ptr<ir::DotDimensions> dims;
  for (int i = 0; i < 2; ++i) {
    if (!is_turned_matrix(dot, i) || !is_for_products_alone(*dot.operand(i))) continue;
    if (dims == nullptr) dims = std::make_shared<ir::DotDimensions>(*dot.attributes().dot);
    std::int64_t& contracting = ((*dims).*kOperands[i].contracting).front();
    contracting = dot.operand(i)->attributes().dimensions[at(contracting)];
    operands[at(i)] = dot.operand(i)->operand(0);
  }
  if (dims == nullptr) return nullptr;
  ir::Attributes attributes = dot.attributes();
  attributes.dot = std::move(dims);
  return rewriter.add(Opcode::dot, dot.shape(), std::move(operands), std::move(attributes));
}

Instruction* without_transposes(Rewriter& rewriter, Instruction& at) {
  Instruction* const turned = turn_product(rewriter, at);
  return turned != nullptr ? turned : read_untransposed(rewriter, at);
}

}  // namespace

Result<bool> turn_products(ir::Module& module) {
  return sweep_programs(module, without_transposes);
}

}  // namespace plimsoll::passes
