// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "runtime/passes/simplify/simplify_rules.h"

namespace plimsoll::passes {

using ir::DType;
using ir::Instruction;
using ir::Literal;
using ir::Opcode;
using ir::Shape;

namespace {

// Mixed precision operands are rounded on the way; only plain instructions are identities.
bool same_type(const Instruction& at, int operand) {
  return at.operand(operand)->shape() == at.shape();
}

// 1/c where multiplying by it gives the very bits of dividing by c: c is a power of two, and both
// are normal in the dtype.
bool exact_reciprocal(const Instruction& divisor, Literal& reciprocal) {
  const Literal* literal = splat_value(divisor);
  if (literal == nullptr || !is_floating(literal->shape().dtype())) return false;
  const double value = literal->at(0);
  int exponent = 0;
  if (!std::isfinite(value) || std::abs(std::frexp(value, &exponent)) != 0.5) return false;
  const DType dtype = literal->shape().dtype();
  const int limit = dtype == DType::f16 ? 13 : dtype == DType::f64 ? 1020 : 125;
  if (std::abs(exponent) > limit) return false;
  reciprocal = Literal(Shape(dtype, {}));
  reciprocal.set(0, 1 / value);
  return true;
}

Instruction* simplify_divide(Rewriter& rewriter, Instruction& at) {
  if (!same_type(at, 0)) return nullptr;
  if (is_splat_of(*at.operand(1), 1)) return at.operand(0);
  Literal reciprocal;
  if (!same_type(at, 1) || splat_value(*at.operand(0)) != nullptr ||
      !exact_reciprocal(*at.operand(1), reciprocal)) {
    return nullptr;
  }
  Instruction* factor = rewriter.add_splat(at.shape(), reciprocal);
  return rewriter.add(Opcode::multiply, at.shape(), {at.operand(0), factor});
}

Instruction* simplify_integer(Rewriter& rewriter, Instruction& at) {
  Instruction* a = at.operand(0);
  Instruction* b = at.operand(1);
  const Literal zero(Shape(at.shape().dtype(), {}));
  switch (at.opcode()) {
    case Opcode::add:
      if (is_splat_of(*a, 0)) return b;
      if (is_splat_of(*b, 0)) return a;
      break;
    case Opcode::multiply:
      if (is_splat_of(*a, 0) || is_splat_of(*b, 0)) return rewriter.add_splat(at.shape(), zero);
      break;
    case Opcode::subtract:
      if (a == b) return rewriter.add_splat(at.shape(), zero);
      break;
    default:
      break;
  }
  return nullptr;
}

}  // namespace

Instruction* simplify_arithmetic(Rewriter& rewriter, Instruction& at) {
  switch (at.opcode()) {
    case Opcode::negate:
      if (at.operand(0)->opcode() == Opcode::negate && same_type(at, 0) &&
          same_type(*at.operand(0), 0)) {
        return at.operand(0)->operand(0);
      }
      return nullptr;
    case Opcode::abs:
      if (at.operand(0)->opcode() == Opcode::abs && same_type(at, 0)) return at.operand(0);
      if (at.operand(0)->opcode() == Opcode::negate && same_type(at, 0) &&
          same_type(*at.operand(0), 0)) {
        return rewriter.add(Opcode::abs, at.shape(), {at.operand(0)->operand(0)});
      }
      return nullptr;
    case Opcode::divide:
      return simplify_divide(rewriter, at);
    case Opcode::add:
    case Opcode::subtract:
    case Opcode::multiply:
    case Opcode::maximum:
    case Opcode::minimum:
      break;
    default:
      return nullptr;
  }
  Instruction* a = at.operand(0);
  Instruction* b = at.operand(1);
  if (!same_type(at, 0) || !same_type(at, 1)) return nullptr;
  // -0 + 0 is 0: only adding -0 and subtracting 0 keep every float.
  switch (at.opcode()) {
    case Opcode::add:
      if (is_splat_of(*b, -0.0) && is_floating(at.shape().dtype())) return a;
      if (is_splat_of(*a, -0.0) && is_floating(at.shape().dtype())) return b;
      break;
    case Opcode::subtract:
      if (is_splat_of(*b, 0)) return a;
      break;
    case Opcode::multiply:
      if (is_splat_of(*b, 1)) return a;
      if (is_splat_of(*a, 1)) return b;
      break;
    default:
      if (a == b) return a;
      break;
  }
  return is_integer(at.shape().dtype()) ? simplify_integer(rewriter, at) : nullptr;
}

}  // namespace plimsoll::passes
