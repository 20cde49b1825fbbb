// SPDX-License-Identifier: Apache-2.0
#include "jit/emit/elementwise.h"
#include "jit/emit/gpu.h"
#include "jit/emit/vector_numbers.h"

namespace plimsoll::jit {

using llvm::Value;
using Builder = llvm::IRBuilderBase;

namespace {

EmittedInteger with_value(const EmittedInteger& like, Value* value) {
  return {{like.builder, value}, like.is_signed};
}

// Quotient and remainder without traps: x / 0 is all ones, x % 0 is x, and the one overflowing
// quotient wraps.
Value* divide_or_rest(const EmittedInteger& dividend, Value* y, bool want_remainder) {
  Builder& b = *dividend.builder;
  Value* x = dividend.value;
  const bool is_signed = dividend.is_signed;
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
  if (bits <= 32 && x->getType()->isVectorTy() && !gpu::is_target(b)) {
    // No CPU divides integer vectors; the f64 quotient of 32-bit numbers truncates exactly.
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

// The shift amount is below the width.
Value* fits(const EmittedInteger& by) {
  return by.builder->CreateICmpULT(by.value, number(by.value, bits_of_type(by.value)));
}

EmittedInteger logical_shift(const EmittedInteger& x, const EmittedInteger& by, bool left) {
  Builder& b = *x.builder;
  Value* in_range = fits(by);
  Value* amount = b.CreateSelect(in_range, by.value, number(by.value, 0));
  Value* shifted = left ? b.CreateShl(x.value, amount) : b.CreateLShr(x.value, amount);
  return with_value(x, b.CreateSelect(in_range, shifted, number(x.value, 0)));
}

}  // namespace

EmittedInteger abs(EmittedInteger x) {
  if (!x.is_signed) return x;
  Builder& b = *x.builder;
  return with_value(x, b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x.value, b.getFalse()));
}
EmittedInteger negate(EmittedInteger x) { return with_value(x, x.builder->CreateNeg(x.value)); }
EmittedInteger sign(EmittedInteger x) {
  Builder& b = *x.builder;
  Value* positive = b.CreateZExt(b.CreateIsNotNull(x.value), x.type());
  if (!x.is_signed) return with_value(x, positive);
  return with_value(x, b.CreateSelect(b.CreateICmpSLT(x.value, number(x.value, 0)),
                                      number(x.value, -1), positive));
}
EmittedInteger bit_not(EmittedInteger x) { return with_value(x, x.builder->CreateNot(x.value)); }
EmittedInteger population_count(EmittedInteger x) {
  return with_value(x, x.builder->CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, x.value));
}
EmittedInteger leading_zeros(EmittedInteger x) {
  Builder& b = *x.builder;
  return with_value(x, b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, x.value, b.getFalse()));
}

EmittedInteger add(EmittedInteger a, EmittedInteger b) {
  return with_value(a, a.builder->CreateAdd(a.value, b.value));
}
EmittedInteger subtract(EmittedInteger a, EmittedInteger b) {
  return with_value(a, a.builder->CreateSub(a.value, b.value));
}
EmittedInteger multiply(EmittedInteger a, EmittedInteger b) {
  return with_value(a, a.builder->CreateMul(a.value, b.value));
}
EmittedInteger divide(EmittedInteger a, EmittedInteger b) {
  return with_value(a, divide_or_rest(a, b.value, false));
}
EmittedInteger remainder(EmittedInteger a, EmittedInteger b) {
  return with_value(a, divide_or_rest(a, b.value, true));
}

// Square-and-multiply; a negative exponent gives what rounding 1 / x^n towards zero does.
EmittedInteger pow(EmittedInteger base, EmittedInteger exponent) {
  Builder& b = *base.builder;
  Value* x = base.value;
  Value* y = exponent.value;
  const unsigned bits = bits_of_type(x);
  Value* one = number(x, 1);
  Value* result = one;
  Value* square = x;
  for (unsigned i = 0; i < bits; ++i) {
    Value* bit = b.CreateAnd(b.CreateLShr(y, number(y, i)), one);
    result = b.CreateSelect(b.CreateIsNotNull(bit), b.CreateMul(result, square), result);
    if (i + 1 < bits) square = b.CreateMul(square, square);
  }
  if (!base.is_signed) return with_value(base, result);
  Value* odd = b.CreateIsNotNull(b.CreateAnd(y, one));
  Value* inverse = b.CreateSelect(b.CreateICmpEQ(x, one), one, number(x, 0));
  inverse = b.CreateSelect(b.CreateICmpEQ(x, number(x, -1)),
                           b.CreateSelect(odd, number(x, -1), one), inverse);
  return with_value(base, b.CreateSelect(b.CreateICmpSLT(y, number(y, 0)), inverse, result));
}

EmittedInteger maximum(EmittedInteger a, EmittedInteger b) {
  const auto intrinsic = a.is_signed ? llvm::Intrinsic::smax : llvm::Intrinsic::umax;
  return with_value(a, a.builder->CreateBinaryIntrinsic(intrinsic, a.value, b.value));
}
EmittedInteger minimum(EmittedInteger a, EmittedInteger b) {
  const auto intrinsic = a.is_signed ? llvm::Intrinsic::smin : llvm::Intrinsic::umin;
  return with_value(a, a.builder->CreateBinaryIntrinsic(intrinsic, a.value, b.value));
}
EmittedInteger bit_and(EmittedInteger a, EmittedInteger b) {
  return with_value(a, a.builder->CreateAnd(a.value, b.value));
}
EmittedInteger bit_or(EmittedInteger a, EmittedInteger b) {
  return with_value(a, a.builder->CreateOr(a.value, b.value));
}
EmittedInteger bit_xor(EmittedInteger a, EmittedInteger b) {
  return with_value(a, a.builder->CreateXor(a.value, b.value));
}
EmittedInteger shift_left(EmittedInteger a, EmittedInteger by) {
  return logical_shift(a, by, true);
}
EmittedInteger shift_right_logical(EmittedInteger a, EmittedInteger by) {
  return logical_shift(a, by, false);
}
EmittedInteger shift_right_arithmetic(EmittedInteger a, EmittedInteger by) {
  Builder& b = *a.builder;
  Value* most = number(by.value, bits_of_type(a.value) - 1);
  return with_value(a, b.CreateAShr(a.value, b.CreateSelect(fits(by), by.value, most)));
}

}  // namespace plimsoll::jit
