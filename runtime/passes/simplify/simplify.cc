// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "runtime/passes/passes.h"
#include "runtime/passes/simplify/simplify_rules.h"

namespace plimsoll::passes {

using ir::Instruction;
using ir::Literal;
using ir::Opcode;
using ir::Shape;

namespace {

Instruction* simplify_one(Rewriter& rewriter, Instruction& at) {
  for (const auto rule : {simplify_structure, simplify_movement, simplify_slicing, simplify_scatter,
                          simplify_conversion, simplify_arithmetic, simplify_logic,
                          simplify_windows, simplify_products, simplify_convolutions,
                          select_branches, sink_broadcasts, fold_constants, fold_moves}) {
    if (Instruction* with = rule(rewriter, at)) return with;
  }
  return nullptr;
}

}  // namespace

const Literal* splat_value(const Instruction& value) {
  const Instruction* at = &value;
  while (at->opcode() == Opcode::broadcast || at->opcode() == Opcode::reshape) at = at->operand(0);
  const Literal* literal = at->attributes().literal.get();
  if (at->opcode() != Opcode::constant || literal == nullptr || literal->is_elided() ||
      !literal->shape().is_array() || literal->shape().element_count() == 0) {
    return nullptr;
  }
  return literal->shape().element_count() == 1 || literal->is_splat() ? literal : nullptr;
}

bool is_splat_of(const Instruction& value, double number) {
  const Literal* literal = splat_value(value);
  if (literal == nullptr) return false;
  Literal expected(Shape(literal->shape().dtype(), {}));
  expected.set(0, number);
  return std::memcmp(literal->bytes().data(), expected.bytes().data(), expected.bytes().size()) ==
         0;
}

bool is_zero(const Instruction& value) {
  return is_splat_of(value, 0) ||
         (ir::is_floating(value.shape().dtype()) && is_splat_of(value, -0.0));
}

bool is_all_ones(const Instruction& value) {
  const Literal* literal = splat_value(value);
  if (literal == nullptr) return false;
  const ir::DType dtype = literal->shape().dtype();
  if (dtype == ir::DType::pred) return literal->data<bool>()[0];
  if (!ir::is_integer(dtype)) return false;
  for (const std::byte b : literal->bytes().first(static_cast<std::size_t>(dtype_bytes(dtype)))) {
    if (b != std::byte{0xff}) return false;
  }
  return true;
}

bool is_scalar_broadcast(const Instruction& value) {
  return value.opcode() == Opcode::broadcast && value.operand(0)->shape().element_count() == 1;
}

Result<bool> simplify(ir::Module& module) {
  constexpr int kMaxSweeps = 8;
  bool changed = module.remove_unreachable() > 0;
  std::vector<ir::Computation*> computations;
  const auto fixed = kernel_bodies(module);
  for (const auto& computation : module.computations()) {
    if (!fixed.contains(computation.get())) computations.push_back(computation.get());
  }
  for (ir::Computation* computation : computations) {
    Rewriter rewriter(*computation);
    for (int i = 0; i < kMaxSweeps; ++i) {
      PLIMSOLL_ASSIGN_OR_RETURN(const bool swept, rewriter.sweep(simplify_one));
      if (!swept) break;
      changed = true;
    }
  }
  if (module.remove_unreachable() > 0) changed = true;
  return changed;
}

}  // namespace plimsoll::passes
