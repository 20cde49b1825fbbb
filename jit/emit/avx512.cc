// SPDX-License-Identifier: Apache-2.0
#include "jit/emit/avx512.h"

#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PatternMatch.h>

#include <vector>

#include "jit/emit/kernel_code.h"

namespace plimsoll::jit::avx512 {
namespace {

using llvm::Value;
using llvm::Intrinsic::ID;
using Builder = llvm::IRBuilderBase;

constexpr const char* kAllowed = "plimsoll.avx512";
constexpr const char* kDotAllowed = "plimsoll.avx512vnni";
constexpr const char* kAvx2 = "plimsoll.avx2";
constexpr unsigned kLanes = 16;
constexpr unsigned kAvx2Lanes = 8;
constexpr std::uint32_t kCurrentRounding = 4;

unsigned lanes_of(Value* x) {
  const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  return type == nullptr ? 1 : type->getNumElements();
}

bool names(Builder& b, const char* metadata) {
  return b.GetInsertBlock()->getModule()->getNamedMetadata(metadata) != nullptr;
}

// Lanes [first, first + count), with undefined ones past the end.
Value* part(Builder& b, Value* x, unsigned first, unsigned count) {
  const unsigned have = lanes_of(x);
  if (first == 0 && have == count) return x;
  std::vector<int> order;
  for (unsigned i = first; i < first + count; ++i) {
    order.push_back(i < have ? static_cast<int>(i) : -1);
  }
  return b.CreateShuffleVector(x, order);
}

// f on `step` lanes at a time.
template <typename F>
Value* by_parts(Builder& b, unsigned step, const std::vector<Value*>& operands, F f) {
  const unsigned lanes = lanes_of(operands[0]);
  Value* whole = nullptr;
  for (unsigned first = 0; first < lanes; first += step) {
    std::vector<Value*> parts;
    for (Value* operand : operands) parts.push_back(part(b, operand, first, step));
    Value* result = f(parts);
    if (whole == nullptr) {
      whole = result;
      continue;
    }
    std::vector<int> order;
    for (unsigned i = 0; i < first + step; ++i) order.push_back(static_cast<int>(i));
    whole = b.CreateShuffleVector(part(b, whole, 0, first), part(b, result, 0, first), order);
  }
  return part(b, whole, 0, lanes);
}

template <typename F>
Value* by_sixteens(Builder& b, const std::vector<Value*>& operands, F f) {
  return by_parts(b, kLanes, operands, f);
}

// An instruction on vectors of f32, with what is between its operand and its mask.
Value* of_each(Builder& b, Value* x, ID instruction, const std::vector<Value*>& options) {
  if (!is_allowed(b, x)) return nullptr;
  return by_sixteens(b, {x}, [&](const std::vector<Value*>& v) {
    std::vector<Value*> operands = {v[0]};
    operands.insert(operands.end(), options.begin(), options.end());
    operands.insert(operands.end(), {llvm::Constant::getNullValue(v[0]->getType()),
                                     b.getInt16(0xffff), b.getInt32(kCurrentRounding)});
    return b.CreateIntrinsic(instruction, {}, operands);
  });
}

// AVX2 permutes eight numbers: of either half of the table, then bit 3 of i says which.
Value* lookup_in_halves(Builder& b, Value* table, Value* i) {
  Value* low = part(b, table, 0, kAvx2Lanes);
  Value* high = part(b, table, kAvx2Lanes, kAvx2Lanes);
  return by_parts(b, kAvx2Lanes, {i}, [&](const std::vector<Value*>& x) {
    const auto of = [&](Value* half) {
      return b.CreateIntrinsic(llvm::Intrinsic::x86_avx2_permps, {}, {half, x[0]});
    };
    Value* sign = b.CreateShl(x[0], llvm::ConstantInt::get(x[0]->getType(), 28));
    Value* is_high = b.CreateICmpSLT(sign, llvm::Constant::getNullValue(sign->getType()));
    return b.CreateSelect(is_high, of(high), of(low));
  });
}

llvm::FixedVectorType* sixteen(llvm::Type* element) {
  return llvm::FixedVectorType::get(element, kLanes);
}
llvm::FixedVectorType* words(Builder& b) {
  return llvm::FixedVectorType::get(b.getInt16Ty(), 2 * kLanes);
}

}  // namespace

void allow(llvm::Module& module, const KernelTarget& target) {
  if (target.avx512) module.getOrInsertNamedMetadata(kAllowed);
  if (target.avx512 && target.avx512_vnni) module.getOrInsertNamedMetadata(kDotAllowed);
  if (target.vector_bytes == 32) module.getOrInsertNamedMetadata(kAvx2);
}

bool is_allowed(Builder& b, Value* vector) {
  return vector->getType()->isVectorTy() && names(b, kAllowed);
}

Value* times_power(Builder& b, Value* a, Value* n) {
  if (!is_allowed(b, a)) return nullptr;
  return by_sixteens(b, {a, n}, [&](const std::vector<Value*>& x) {
    return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {},
                             {x[0], x[1], llvm::Constant::getNullValue(x[0]->getType()),
                              b.getInt16(0xffff), b.getInt32(kCurrentRounding)});
  });
}

Value* fraction(Builder& b, Value* t) {
  constexpr std::uint32_t kDown = 1;
  return of_each(b, t, llvm::Intrinsic::x86_avx512_mask_reduce_ps_512, {b.getInt32(kDown)});
}

Value* exponent(Builder& b, Value* x) {
  return of_each(b, x, llvm::Intrinsic::x86_avx512_mask_getexp_ps_512, {});
}

Value* significand(Builder& b, Value* x, bool about_one) {
  constexpr std::uint32_t kFromOne = 0, kAboutOne = 3, kNoNegative = 8;
  return of_each(b, x, llvm::Intrinsic::x86_avx512_mask_getmant_ps_512,
                 {b.getInt32((about_one ? kAboutOne : kFromOne) | kNoNegative)});
}

Value* lookup(Builder& b, llvm::Constant* table, Value* i) {
  if (i->getType()->isVectorTy() && names(b, kAvx2)) return lookup_in_halves(b, table, i);
  if (!is_allowed(b, i)) return nullptr;
  return by_sixteens(b, {i}, [&](const std::vector<Value*>& x) {
    return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_sf_512, {}, {table, x[0]});
  });
}

Value* extreme(Builder& b, Value* x, Value* y, bool greater) {
  if (!x->getType()->getScalarType()->isFloatTy() || !is_allowed(b, x)) return nullptr;
  // The comparison decides the sign, so that zeros are told apart.
  constexpr std::uint32_t kSmaller = 4, kGreater = 5;
  Value* number = by_sixteens(b, {x, y}, [&](const std::vector<Value*>& v) {
    return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_range_ps_512, {},
                             {v[0], v[1], b.getInt32(greater ? kGreater : kSmaller),
                              llvm::Constant::getNullValue(v[0]->getType()), b.getInt16(0xffff),
                              b.getInt32(kCurrentRounding)});
  });
  return b.CreateSelect(b.CreateFCmpUNO(x, y), llvm::ConstantFP::getNaN(x->getType()), number);
}

Value* widen_f16(Builder& b, Value* x) {
  if (!is_allowed(b, x)) return nullptr;
  return by_sixteens(b, {x}, [&](const std::vector<Value*>& v) {
    return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_vcvtph2ps_512, {},
                             {v[0], llvm::Constant::getNullValue(sixteen(b.getFloatTy())),
                              b.getInt16(0xffff), b.getInt32(kCurrentRounding)});
  });
}

Value* narrow_f16(Builder& b, Value* x) {
  if (!is_allowed(b, x)) return nullptr;
  constexpr std::uint32_t kToNearestEven = 0;
  return by_sixteens(b, {x}, [&](const std::vector<Value*>& v) {
    return b.CreateIntrinsic(
        llvm::Intrinsic::x86_avx512_mask_vcvtps2ph_512, {},
        {v[0], b.getInt32(kToNearestEven), llvm::Constant::getNullValue(sixteen(b.getInt16Ty())),
         b.getInt16(0xffff)});
  });
}

Value* plain_nan(Builder& b, Value* x) {
  if (!is_allowed(b, x)) return nullptr;
  // By the kind of a number, from the lowest four bits: quiet and signaling NaNs become the
  // machine's own (3), others stay (0).
  llvm::Constant* table = llvm::ConstantInt::get(sixteen(b.getInt32Ty()), 0x33);
  return by_sixteens(b, {x}, [&](const std::vector<Value*>& v) {
    return b.CreateIntrinsic(
        llvm::Intrinsic::x86_avx512_mask_fixupimm_ps_512, {},
        {v[0], v[0], table, b.getInt32(0), b.getInt16(0xffff), b.getInt32(kCurrentRounding)});
  });
}

Value* round_to_upper_half(Builder& b, Value* bits) {
  if (!is_allowed(b, bits) || !names(b, kDotAllowed)) return nullptr;
  return by_sixteens(b, {bits}, [&](const std::vector<Value*>& v) {
    const auto number = [&](std::uint32_t n) { return llvm::ConstantInt::get(v[0]->getType(), n); };
    // By halves: 1 * 0x7fff, and whether the upper one is odd * 1.
    Value* odd = b.CreateOr(b.CreateAnd(v[0], number(0x10000)), number(1));
    return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpdpwssd_512, {},
                             {v[0], odd, number(0x17fff)});
  });
}

Value* load_to_upper_halves(Builder& b, Value* loaded) {
  if (!llvm::isa<llvm::LoadInst>(loaded) || lanes_of(loaded) != kLanes || !is_allowed(b, loaded)) {
    return nullptr;
  }
  std::vector<llvm::Constant*> from, mask;
  for (unsigned i = 0; i < 2 * kLanes; ++i) {
    from.push_back(b.getInt16(static_cast<std::uint16_t>(i / 2)));
    mask.push_back(b.getInt1(i % 2 == 1));
  }
  Value* moved =
      b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_hi_512, {},
                        {part(b, loaded, 0, 2 * kLanes), llvm::ConstantVector::get(from)});
  Value* halves = b.CreateSelect(llvm::ConstantVector::get(mask), moved,
                                 llvm::Constant::getNullValue(words(b)));
  return b.CreateBitCast(halves, sixteen(b.getInt32Ty()));
}

Value* upper_halves_to_store(Builder& b, Value* value) {
  using namespace llvm::PatternMatch;
  Value* bits = nullptr;
  if (lanes_of(value) != kLanes || !is_allowed(b, value) ||
      !match(value, m_Trunc(m_LShr(m_Value(bits), m_SpecificInt(16)))) ||
      bits->getType() != sixteen(b.getInt32Ty())) {
    return nullptr;
  }
  std::vector<llvm::Constant*> from;
  for (unsigned i = 0; i < 2 * kLanes; ++i) {
    from.push_back(b.getInt16(static_cast<std::uint16_t>(2 * i + 1) % (2 * kLanes)));
  }
  Value* moved =
      b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_hi_512, {},
                        {b.CreateBitCast(bits, words(b)), llvm::ConstantVector::get(from)});
  return part(b, moved, 0, kLanes);
}

}  // namespace plimsoll::jit::avx512
