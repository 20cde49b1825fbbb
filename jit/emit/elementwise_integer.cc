// SPDX-License-Identifier: Apache-2.0
#include "jit/emit/elementwise.h"
#include "jit/emit/vector_math.h"

namespace plimsoll::jit {

using ir::DType;
using ir::Opcode;
using llvm::Value;
using Builder = llvm::IRBuilderBase;

namespace {

// Quotient and remainder without traps: x / 0 is all ones, x % 0 is x, and the one overflowing
// quotient wraps.
Value* integer_divide(Builder& b, Value* x, Value* y, bool is_signed, bool want_remainder) {
  Value* by_zero = b.CreateIsNull(y);
  Value* unsafe = by_zero;
  const unsigned bits = bits_of_type(x);
  if (is_signed) {
    Value* lowest = llvm::ConstantInt::get(x->getType(), llvm::APInt::getSignedMinValue(bits));
    unsafe = b.CreateOr(unsafe,
                        b.CreateAnd(b.CreateICmpEQ(x, lowest), b.CreateICmpEQ(y, number(y, -1))));
  }
  Value* divisor = b.CreateSelect(unsafe, number(y, 1), y);
  Value* quotient = nullptr;
  if (bits <= 32 && x->getType()->isVectorTy()) {
    // No machine divides integer vectors; the f64 quotient of 32-bit numbers truncates exactly.
    llvm::Type* wide = Emitted{nullptr, x}.as_wide(b.getDoubleTy());
    const auto lift = [&](Value* v) {
      return is_signed ? b.CreateSIToFP(v, wide) : b.CreateUIToFP(v, wide);
    };
    Value* exact = b.CreateFDiv(lift(x), lift(divisor));
    quotient =
        is_signed ? b.CreateFPToSI(exact, x->getType()) : b.CreateFPToUI(exact, x->getType());
  } else {
    quotient = is_signed ? b.CreateSDiv(x, divisor) : b.CreateUDiv(x, divisor);
  }
  if (!want_remainder) return b.CreateSelect(by_zero, number(x, -1), quotient);
  return b.CreateSelect(by_zero, x, b.CreateSub(x, b.CreateMul(quotient, divisor)));
}

// Square-and-multiply; a negative exponent gives what rounding 1 / x^n towards zero does.
Value* integer_power(Builder& b, Value* x, Value* y, bool is_signed) {
  const unsigned bits = bits_of_type(x);
  Value* one = number(x, 1);
  Value* result = one;
  Value* square = x;
  for (unsigned i = 0; i < bits; ++i) {
    Value* bit = b.CreateAnd(b.CreateLShr(y, number(y, i)), one);
    result = b.CreateSelect(b.CreateIsNotNull(bit), b.CreateMul(result, square), result);
    if (i + 1 < bits) square = b.CreateMul(square, square);
  }
  if (!is_signed) return result;
  Value* odd = b.CreateIsNotNull(b.CreateAnd(y, one));
  Value* inverse = b.CreateSelect(b.CreateICmpEQ(x, one), one, number(x, 0));
  inverse = b.CreateSelect(b.CreateICmpEQ(x, number(x, -1)),
                           b.CreateSelect(odd, number(x, -1), one), inverse);
  return b.CreateSelect(b.CreateICmpSLT(y, number(y, 0)), inverse, result);
}

}  // namespace

Value* emit_integer_unary(Builder& b, Opcode opcode, Value* x, DType dtype) {
  const bool is_signed = ir::dtype_class(dtype) == ir::DTypeClass::signed_int;
  switch (opcode) {
    case Opcode::abs:
      return is_signed ? b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, b.getFalse()) : x;
    case Opcode::negate:
      return b.CreateNeg(x);
    case Opcode::not_:
      return b.CreateNot(x);
    case Opcode::sign: {
      Value* positive = b.CreateZExt(b.CreateIsNotNull(x), x->getType());
      if (!is_signed) return positive;
      return b.CreateSelect(b.CreateICmpSLT(x, number(x, 0)), number(x, -1), positive);
    }
    case Opcode::popcnt:
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, x);
    case Opcode::count_leading_zeros:
      return b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, x, b.getFalse());
    default:
      return x;
  }
}

Value* emit_integer_binary(Builder& b, Opcode opcode, Value* x, Value* y, DType dtype) {
  const bool is_signed = ir::dtype_class(dtype) == ir::DTypeClass::signed_int;
  if (dtype == DType::pred) {
    switch (opcode) {
      case Opcode::add:
      case Opcode::maximum:
        return b.CreateOr(x, y);
      case Opcode::multiply:
      case Opcode::minimum:
        return b.CreateAnd(x, y);
      case Opcode::subtract:
        return b.CreateXor(x, y);
      default:
        break;
    }
  }
  const unsigned bits = bits_of_type(x);
  const auto in_range = [&] { return b.CreateICmpULT(y, number(y, bits)); };
  switch (opcode) {
    case Opcode::add:
      return b.CreateAdd(x, y);
    case Opcode::subtract:
      return b.CreateSub(x, y);
    case Opcode::multiply:
      return b.CreateMul(x, y);
    case Opcode::divide:
      return integer_divide(b, x, y, is_signed, false);
    case Opcode::remainder:
      return integer_divide(b, x, y, is_signed, true);
    case Opcode::power:
      return integer_power(b, x, y, is_signed);
    case Opcode::maximum:
      return b.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, x,
                                     y);
    case Opcode::minimum:
      return b.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, x,
                                     y);
    case Opcode::and_:
      return b.CreateAnd(x, y);
    case Opcode::or_:
      return b.CreateOr(x, y);
    case Opcode::xor_:
      return b.CreateXor(x, y);
    case Opcode::shift_left:
    case Opcode::shift_right_logical: {
      Value* fits = in_range();
      Value* amount = b.CreateSelect(fits, y, number(y, 0));
      Value* shifted =
          opcode == Opcode::shift_left ? b.CreateShl(x, amount) : b.CreateLShr(x, amount);
      return b.CreateSelect(fits, shifted, number(x, 0));
    }
    case Opcode::shift_right_arithmetic:
      return b.CreateAShr(x, b.CreateSelect(in_range(), y, number(y, bits - 1)));
    default:
      return nullptr;
  }
}

}  // namespace plimsoll::jit
