// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "jit/emit/gpu.h"
#include "jit/emit/vector_math.h"

// The operations of runtime/ir/ops.def that value types have of their own, as LLVM IR: of floats,
// of integers of every width, and of truth values.
namespace plimsoll::jit {

template <EmittedFloat T>
T with_intrinsic(llvm::Intrinsic::ID intrinsic, T x) {
  return {{x.builder, x.builder->CreateUnaryIntrinsic(intrinsic, x.value)}};
}
template <EmittedFloat T>
T abs(T x) {
  return with_intrinsic(llvm::Intrinsic::fabs, x);
}
template <EmittedFloat T>
T negate(T x) {
  return -x;
}
template <EmittedFloat T>
T sign(T x) {
  llvm::IRBuilderBase& b = *x.builder;
  llvm::Value* one = llvm::ConstantFP::get(x.type(), 1.0);
  llvm::Value* zero = llvm::ConstantFP::get(x.type(), 0.0);
  llvm::Value* unit = b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, one, x.value);
  return {{&b, b.CreateSelect(b.CreateFCmpONE(x.value, zero), unit, x.value)}};
}
template <EmittedFloat T>
T ceil(T x) {
  return with_intrinsic(llvm::Intrinsic::ceil, x);
}
template <EmittedFloat T>
T floor(T x) {
  return with_intrinsic(llvm::Intrinsic::floor, x);
}
template <EmittedFloat T>
T round_half_away(T x) {
  return with_intrinsic(llvm::Intrinsic::round, x);
}
template <EmittedFloat T>
T add(T a, T b) {
  return a + b;
}
template <EmittedFloat T>
T subtract(T a, T b) {
  return a - b;
}
template <EmittedFloat T>
T multiply(T a, T b) {
  return a * b;
}
template <EmittedFloat T>
T divide(T a, T b) {
  return a / b;
}
template <EmittedFloat T>
T remainder(T a, T b) {
  if (gpu::is_target(*a.builder))
    return {{a.builder, gpu::remainder(*a.builder, a.value, b.value)}};
  return {{a.builder, a.builder->CreateFRem(a.value, b.value)}};
}
// The greater of two floats, or the smaller; NaN if either is NaN.
llvm::Value* emit_extreme(llvm::IRBuilderBase& builder, llvm::Value* a, llvm::Value* b,
                          bool greater);
template <EmittedFloat T>
T maximum(T a, T b) {
  return {{a.builder, emit_extreme(*a.builder, a.value, b.value, true)}};
}
template <EmittedFloat T>
T minimum(T a, T b) {
  return {{a.builder, emit_extreme(*a.builder, a.value, b.value, false)}};
}

// Integers of any width; they wrap, and nothing traps.
struct EmittedInteger : Emitted {
  static constexpr auto kKind = math::Kind::integer;
  bool is_signed = false;
};
EmittedInteger abs(EmittedInteger x);
EmittedInteger negate(EmittedInteger x);
EmittedInteger sign(EmittedInteger x);
EmittedInteger bit_not(EmittedInteger x);
EmittedInteger population_count(EmittedInteger x);
EmittedInteger leading_zeros(EmittedInteger x);
EmittedInteger add(EmittedInteger a, EmittedInteger b);
EmittedInteger subtract(EmittedInteger a, EmittedInteger b);
EmittedInteger multiply(EmittedInteger a, EmittedInteger b);
EmittedInteger divide(EmittedInteger a, EmittedInteger b);
EmittedInteger remainder(EmittedInteger a, EmittedInteger b);
EmittedInteger pow(EmittedInteger base, EmittedInteger exponent);
EmittedInteger maximum(EmittedInteger a, EmittedInteger b);
EmittedInteger minimum(EmittedInteger a, EmittedInteger b);
EmittedInteger bit_and(EmittedInteger a, EmittedInteger b);
EmittedInteger bit_or(EmittedInteger a, EmittedInteger b);
EmittedInteger bit_xor(EmittedInteger a, EmittedInteger b);
EmittedInteger shift_left(EmittedInteger a, EmittedInteger by);
EmittedInteger shift_right_logical(EmittedInteger a, EmittedInteger by);
EmittedInteger shift_right_arithmetic(EmittedInteger a, EmittedInteger by);

inline EmittedMask add(EmittedMask a, EmittedMask b) { return a | b; }
inline EmittedMask multiply(EmittedMask a, EmittedMask b) { return a & b; }
inline EmittedMask maximum(EmittedMask a, EmittedMask b) { return a | b; }
inline EmittedMask minimum(EmittedMask a, EmittedMask b) { return a & b; }
inline EmittedMask bit_and(EmittedMask a, EmittedMask b) { return a & b; }
inline EmittedMask bit_or(EmittedMask a, EmittedMask b) { return a | b; }
inline EmittedMask bit_xor(EmittedMask a, EmittedMask b) {
  return {{a.builder, a.builder->CreateXor(a.value, b.value)}};
}
inline EmittedMask bit_not(EmittedMask x) { return !x; }

}  // namespace plimsoll::jit
