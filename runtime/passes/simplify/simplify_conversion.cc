// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/simplify/simplify_rules.h"

namespace plimsoll::passes {

using ir::DType;
using ir::DTypeClass;
using ir::Instruction;
using ir::Opcode;

namespace {

// Integers of so many bits (sign left out) are all represented.
int integer_digits(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return 8;
    case DType::f16:
      return 11;
    case DType::f32:
      return 24;
    case DType::f64:
      return 53;
    case DType::pred:
      return 1;
    default:
      return 8 * dtype_bytes(dtype) - (dtype_class(dtype) == DTypeClass::signed_int ? 1 : 0);
  }
}

// Every value of `from` is a value of `to`.
bool widens(DType from, DType to) {
  if (from == to) return true;
  if (to == DType::pred) return false;
  if (is_floating(from)) return is_floating(to) && dtype_bytes(to) > dtype_bytes(from);
  if (dtype_class(from) == DTypeClass::signed_int && dtype_class(to) == DTypeClass::unsigned_int) {
    return false;
  }
  return integer_digits(from) <= integer_digits(to);
}

}  // namespace

Instruction* simplify_conversion(Rewriter& rewriter, Instruction& at) {
  if (at.opcode() != Opcode::convert && at.opcode() != Opcode::bitcast_convert) return nullptr;
  Instruction* inner = at.operand(0);
  if (inner->shape() == at.shape()) return inner;
  if (inner->opcode() != at.opcode()) return nullptr;
  Instruction* source = inner->operand(0);
  if (at.opcode() == Opcode::bitcast_convert) {
    // Bits come back as they were, except out of a truth, which is 0 or 1.
    if (inner->shape().dtype() == DType::pred) return nullptr;
    return source->shape() == at.shape() ? source : nullptr;
  }
  // Those lose what they don't hold.
  if (ir::is_narrow(inner->shape().dtype())) return nullptr;
  if (!widens(source->shape().dtype(), inner->shape().dtype())) return nullptr;
  if (source->shape() == at.shape()) return source;
  return rewriter.add(Opcode::convert, at.shape(), {source});
}

}  // namespace plimsoll::passes
