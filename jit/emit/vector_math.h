// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/PatternMatch.h>

#include <cstdint>
#include <type_traits>

#include "runtime/base/math/scalar.h"

// The value types of runtime/base/math/scalar.h that emit LLVM IR: every operation on them appends
// an instruction on a scalar or a vector, as wide as its operands.
namespace plimsoll::jit {

struct Emitted {
  llvm::IRBuilderBase* builder = nullptr;
  llvm::Value* value = nullptr;

  llvm::Type* type() const { return value->getType(); }
  // `element` as wide as this value.
  llvm::Type* as_wide(llvm::Type* element) const {
    if (auto* vector = llvm::dyn_cast<llvm::VectorType>(type())) {
      return llvm::VectorType::get(element, vector->getElementCount());
    }
    return element;
  }
};
struct EmittedMask : Emitted {
  static constexpr auto kKind = math::Kind::predicate;
};
struct EmittedI32 : Emitted {};
struct EmittedI64 : Emitted {};
struct EmittedF32 : Emitted {
  static constexpr auto kKind = math::Kind::f32;
};
struct EmittedF64 : Emitted {
  static constexpr auto kKind = math::Kind::f64;
};

inline EmittedMask operator&(EmittedMask a, EmittedMask b) {
  return {{a.builder, a.builder->CreateAnd(a.value, b.value)}};
}
inline EmittedMask operator|(EmittedMask a, EmittedMask b) {
  return {{a.builder, a.builder->CreateOr(a.value, b.value)}};
}
inline EmittedMask operator!(EmittedMask a) { return {{a.builder, a.builder->CreateNot(a.value)}}; }

template <typename T>
T emitted_select(EmittedMask m, T a, T b) {
  return {{a.builder, a.builder->CreateSelect(m.value, a.value, b.value)}};
}

// What the integers have in common.
template <typename T>
concept EmittedBits = std::is_same_v<T, EmittedI32> || std::is_same_v<T, EmittedI64>;

inline EmittedI32 like(EmittedI32 a, std::int32_t value) {
  return {{a.builder, llvm::ConstantInt::getSigned(a.type(), value)}};
}
inline EmittedI64 like(EmittedI64 a, std::int64_t value) {
  return {{a.builder, llvm::ConstantInt::getSigned(a.type(), value)}};
}
template <EmittedBits T>
T operator+(T a, T b) {
  return {{a.builder, a.builder->CreateAdd(a.value, b.value)}};
}
template <EmittedBits T>
T operator-(T a, T b) {
  return {{a.builder, a.builder->CreateSub(a.value, b.value)}};
}
template <EmittedBits T>
T operator&(T a, T b) {
  return {{a.builder, a.builder->CreateAnd(a.value, b.value)}};
}
template <EmittedBits T>
T operator|(T a, T b) {
  return {{a.builder, a.builder->CreateOr(a.value, b.value)}};
}
template <EmittedBits T>
T operator^(T a, T b) {
  return {{a.builder, a.builder->CreateXor(a.value, b.value)}};
}
template <EmittedBits T>
T operator<<(T a, int n) {
  return {{a.builder, a.builder->CreateShl(a.value, like(a, n).value)}};
}
template <EmittedBits T>
T operator>>(T a, int n) {
  return {{a.builder, a.builder->CreateAShr(a.value, like(a, n).value)}};
}
template <EmittedBits T>
EmittedMask operator<(T a, T b) {
  return {{a.builder, a.builder->CreateICmpSLT(a.value, b.value)}};
}
template <EmittedBits T>
EmittedMask operator==(T a, T b) {
  return {{a.builder, a.builder->CreateICmpEQ(a.value, b.value)}};
}
template <EmittedBits T>
T select(EmittedMask m, T a, T b) {
  return emitted_select(m, a, b);
}

// What f32 and f64 have in common.
template <typename T>
concept EmittedFloat = std::is_same_v<T, EmittedF32> || std::is_same_v<T, EmittedF64>;

// A product or a quotient with -1 and a difference from -0 are no negations: a NaN keeps its sign,
// as it does where the constant comes from memory. LLVM, for which a NaN's sign is nobody's
// business, makes negations of them where it sees the constant.
inline llvm::Value* unseen_if(llvm::IRBuilderBase& builder, double constant, llvm::Value* value) {
  const bool is_it = llvm::PatternMatch::match(value, llvm::PatternMatch::m_SpecificFP(constant));
  return is_it ? builder.CreateArithmeticFence(value, value->getType()) : value;
}
inline llvm::Value* emit_product(llvm::IRBuilderBase& builder, llvm::Value* a, llvm::Value* b) {
  return builder.CreateFMul(unseen_if(builder, -1.0, a), unseen_if(builder, -1.0, b));
}
inline llvm::Value* emit_quotient(llvm::IRBuilderBase& builder, llvm::Value* a, llvm::Value* b) {
  return builder.CreateFDiv(a, unseen_if(builder, -1.0, b));
}
inline llvm::Value* emit_difference(llvm::IRBuilderBase& builder, llvm::Value* a, llvm::Value* b) {
  return builder.CreateFSub(unseen_if(builder, -0.0, a), b);
}

template <EmittedFloat T>
T operator+(T a, T b) {
  return {{a.builder, a.builder->CreateFAdd(a.value, b.value)}};
}
template <EmittedFloat T>
T operator-(T a, T b) {
  return {{a.builder, emit_difference(*a.builder, a.value, b.value)}};
}
template <EmittedFloat T>
T operator*(T a, T b) {
  return {{a.builder, emit_product(*a.builder, a.value, b.value)}};
}
template <EmittedFloat T>
T operator/(T a, T b) {
  return {{a.builder, emit_quotient(*a.builder, a.value, b.value)}};
}
template <EmittedFloat T>
T operator-(T a) {
  return {{a.builder, a.builder->CreateFNeg(a.value)}};
}
template <EmittedFloat T>
EmittedMask operator<(T a, T b) {
  return {{a.builder, a.builder->CreateFCmpOLT(a.value, b.value)}};
}
template <EmittedFloat T>
EmittedMask operator<=(T a, T b) {
  return {{a.builder, a.builder->CreateFCmpOLE(a.value, b.value)}};
}
template <EmittedFloat T>
EmittedMask operator>(T a, T b) {
  return {{a.builder, a.builder->CreateFCmpOGT(a.value, b.value)}};
}
template <EmittedFloat T>
EmittedMask operator>=(T a, T b) {
  return {{a.builder, a.builder->CreateFCmpOGE(a.value, b.value)}};
}
template <EmittedFloat T>
EmittedMask operator==(T a, T b) {
  return {{a.builder, a.builder->CreateFCmpOEQ(a.value, b.value)}};
}
template <EmittedFloat T>
EmittedMask operator!=(T a, T b) {
  return {{a.builder, a.builder->CreateFCmpUNE(a.value, b.value)}};
}
template <EmittedFloat T>
T fma(T a, T b, T c) {
  return {{a.builder, a.builder->CreateIntrinsic(llvm::Intrinsic::fma, {a.type()},
                                                 {a.value, b.value, c.value})}};
}
template <EmittedFloat T>
T sqrt(T a) {
  return {{a.builder, a.builder->CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, a.value)}};
}
template <EmittedFloat T>
T round_even(T a) {
  return {{a.builder, a.builder->CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, a.value)}};
}
template <EmittedFloat T>
T select(EmittedMask m, T a, T b) {
  return emitted_select(m, a, b);
}

inline EmittedF32 like(EmittedF32 a, float value) {
  return {{a.builder, llvm::ConstantFP::get(a.type(), llvm::APFloat(value))}};
}
inline EmittedF64 like(EmittedF64 a, double value) {
  return {{a.builder, llvm::ConstantFP::get(a.type(), llvm::APFloat(value))}};
}
inline EmittedI32 bits_of(EmittedF32 a) {
  return {{a.builder, a.builder->CreateBitCast(a.value, a.as_wide(a.builder->getInt32Ty()))}};
}
inline EmittedI64 bits_of(EmittedF64 a) {
  return {{a.builder, a.builder->CreateBitCast(a.value, a.as_wide(a.builder->getInt64Ty()))}};
}
inline EmittedF64 from_bits(EmittedI64 a) {
  return {{a.builder, a.builder->CreateBitCast(a.value, a.as_wide(a.builder->getDoubleTy()))}};
}
inline EmittedF32 from_bits(EmittedI32 a) {
  return {{a.builder, a.builder->CreateBitCast(a.value, a.as_wide(a.builder->getFloatTy()))}};
}
inline EmittedF32 to_float(EmittedI32 a) {
  return {{a.builder, a.builder->CreateSIToFP(a.value, a.as_wide(a.builder->getFloatTy()))}};
}
inline EmittedF64 widen(EmittedF32 a) {
  return {{a.builder, a.builder->CreateFPExt(a.value, a.as_wide(a.builder->getDoubleTy()))}};
}
inline EmittedF32 narrow(EmittedF64 a) {
  return {{a.builder, a.builder->CreateFPTrunc(a.value, a.as_wide(a.builder->getFloatTy()))}};
}

// A GPU's arithmetic doesn't.
bool underflows_slowly(const Emitted& a);
EmittedF32 times_power(EmittedF32 a, EmittedF32 n);
EmittedF32 lookup(const float (&table)[16], EmittedI32 i);

// runtime/base/math/binary.h
EmittedF32 fraction(EmittedF32 t);
EmittedF32 times_power_of_floor(EmittedF32 a, EmittedF32 t);
EmittedF32 exponent(EmittedF32 x);
EmittedF32 significand(EmittedF32 x);
EmittedF32 significand_about_one(EmittedF32 x);

// Branches, so the builder must stand at the end of a block of a function that nothing else is
// being written into; it is left at the end of another block.
EmittedF64 at_lanes(EmittedMask lanes, EmittedF64 otherwise, const math::LaneFunction& function,
                    EmittedF64 x);

// A call of the function of that name for x's type, which `emit` writes where there is none yet. It
// is inlined once all is written.
llvm::Value* call_own_function(
    const char* name, Emitted x,
    llvm::function_ref<llvm::Value*(llvm::IRBuilderBase&, llvm::Value*)> emit);
template <EmittedFloat T, typename F>
T in_own_function(const char* name, T x, F f) {
  return {{x.builder, call_own_function(name, x, [&](llvm::IRBuilderBase& own, llvm::Value* value) {
             return f(T{{&own, value}}).value;
           })}};
}

}  // namespace plimsoll::jit
