// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include <cmath>
#include <cstring>

#include "jit/elementwise.h"
#include "jit/vector_math.h"

namespace plimsoll::jit {
namespace {

using ir::DType;
using llvm::Value;

llvm::Type* as_wide(Value* value, llvm::Type* element) {
  return Emitted{nullptr, value}.as_wide(element);
}

bool is_signed(DType dtype) { return ir::dtype_class(dtype) == ir::DTypeClass::signed_int; }

// f16 to and from f32 goes by bits, as in Float16: with LLVM's half type in sight, the optimizer
// would turn an f32 operation between the two conversions into one on halves, which machines
// without them do slower and, for maximum, wrongly.
Value* widen_f16(llvm::IRBuilderBase& b, Value* x) {
  Value* bits = b.CreateZExt(x, as_wide(x, b.getInt32Ty()));
  llvm::Type* type = bits->getType();
  llvm::Type* wide = as_wide(x, b.getFloatTy());
  const auto number = [&](std::uint32_t n) { return llvm::ConstantInt::get(type, n); };
  Value* sign = b.CreateShl(b.CreateAnd(bits, number(0x8000)), number(16));
  Value* magnitude = b.CreateShl(b.CreateAnd(bits, number(0x7fff)), number(13));
  // Multiplying moves the exponent and normalizes subnormals.
  Value* finite =
      b.CreateFMul(b.CreateBitCast(magnitude, wide), llvm::ConstantFP::get(wide, 0x1p112));
  Value* special = b.CreateOr(magnitude, number(0x7f800000));
  Value* result = b.CreateSelect(b.CreateICmpUGE(magnitude, number(0x0f800000)), special,
                                 b.CreateBitCast(finite, type));
  return b.CreateBitCast(b.CreateOr(sign, result), wide);
}

// A NaN of arithmetic on bf16 operands is one of them made quiet, or the machine's own: the lower
// half of its bits is zero, and rounding leaves it alone.
Value* narrow_bf16(llvm::IRBuilderBase& b, Value* x, bool of_arithmetic) {
  Value* bits = b.CreateBitCast(x, as_wide(x, b.getInt32Ty()));
  llvm::Type* type = bits->getType();
  const auto number = [&](std::uint32_t n) { return llvm::ConstantInt::get(type, n); };
  Value* odd = b.CreateICmpNE(b.CreateAnd(bits, number(0x10000)), number(0));
  Value* result = b.CreateAdd(bits, b.CreateSelect(odd, number(0x8000), number(0x7fff)));
  if (!of_arithmetic) {
    result = b.CreateSelect(b.CreateFCmpUNO(x, x), b.CreateOr(bits, number(0x400000)), result);
  }
  return b.CreateTrunc(b.CreateLShr(result, number(16)), as_wide(x, b.getInt16Ty()));
}

Value* narrow_f16(llvm::IRBuilderBase& b, Value* x) {
  Value* bits = b.CreateBitCast(x, as_wide(x, b.getInt32Ty()));
  llvm::Type* type = bits->getType();
  const auto number = [&](std::uint32_t n) { return llvm::ConstantInt::get(type, n); };
  Value* sign = b.CreateAnd(b.CreateLShr(bits, number(16)), number(0x8000));
  Value* magnitude = b.CreateAnd(bits, number(0x7fffffff));
  Value* shifted = b.CreateFAdd(b.CreateBitCast(magnitude, x->getType()),
                                llvm::ConstantFP::get(x->getType(), 0.5));
  Value* subnormal = b.CreateSub(b.CreateBitCast(shifted, type), number(0x3f000000));
  Value* high = b.CreateLShr(magnitude, number(13));
  Value* odd = b.CreateAnd(high, number(1));
  Value* rounded = b.CreateAdd(b.CreateAdd(magnitude, number(0xfff)), odd);
  Value* normal = b.CreateLShr(b.CreateSub(rounded, number(0x38000000)), number(13));
  Value* nan = b.CreateOr(b.CreateAnd(high, number(0x3ff)), number(0x7e00));
  Value* result = b.CreateSelect(b.CreateICmpULT(magnitude, number(0x38800000)), subnormal, normal);
  result = b.CreateSelect(b.CreateICmpUGE(magnitude, number(0x477ff000)), number(0x7c00), result);
  result = b.CreateSelect(b.CreateICmpUGT(magnitude, number(0x7f800000)), nan, result);
  return b.CreateTrunc(b.CreateOr(sign, result), as_wide(x, b.getInt16Ty()));
}

// f16 by the machine's instructions, which round and keep a NaN's payload as the code above does,
// but make every NaN quiet on the way to f32 too.
constexpr const char* kHalfInstructions = "plimsoll.half_instructions";
constexpr unsigned kHalfLanes = 16;

bool has_half_instructions(llvm::IRBuilderBase& b, Value* x) {
  return x->getType()->isVectorTy() &&
         llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements() <= kHalfLanes &&
         b.GetInsertBlock()->getModule()->getNamedMetadata(kHalfInstructions) != nullptr;
}

// `x` with `lanes` lanes, the first ones of which are kept.
Value* with_lanes(llvm::IRBuilderBase& b, Value* x, unsigned lanes) {
  const unsigned have = llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements();
  if (have == lanes) return x;
  std::vector<int> order;
  for (unsigned i = 0; i < lanes; ++i) order.push_back(i < have ? static_cast<int>(i) : -1);
  return b.CreateShuffleVector(x, order);
}

Value* widen_f16_quiet(llvm::IRBuilderBase& b, Value* x) {
  if (!has_half_instructions(b, x)) return widen_f16(b, x);
  const unsigned lanes = llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements();
  llvm::Type* wide = llvm::FixedVectorType::get(b.getFloatTy(), kHalfLanes);
  constexpr int kCurrentRounding = 4;
  Value* result =
      b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_vcvtph2ps_512, {},
                        {with_lanes(b, x, kHalfLanes), llvm::Constant::getNullValue(wide),
                         b.getInt16(0xffff), b.getInt32(kCurrentRounding)});
  return with_lanes(b, result, lanes);
}

Value* narrow_f16_fast(llvm::IRBuilderBase& b, Value* x) {
  if (!has_half_instructions(b, x)) return narrow_f16(b, x);
  const unsigned lanes = llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements();
  llvm::Type* narrow = llvm::FixedVectorType::get(b.getInt16Ty(), kHalfLanes);
  constexpr int kToNearestEven = 0;
  Value* result = b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_vcvtps2ph_512, {},
                                    {with_lanes(b, x, kHalfLanes), b.getInt32(kToNearestEven),
                                     llvm::Constant::getNullValue(narrow), b.getInt16(0xffff)});
  return with_lanes(b, result, lanes);
}

// f32 to an integer of up to 32 bits: the nearest it has towards zero, and 0 for NaN.
Value* saturate(llvm::IRBuilderBase& b, Value* x, DType to) {
  const int bits = 8 * ir::dtype_bytes(to);
  const bool negative = is_signed(to);
  llvm::Type* type = x->getType();
  const auto real = [&](double n) { return llvm::ConstantFP::get(type, n); };
  const double end = std::ldexp(1.0, negative ? bits - 1 : bits);
  const double lowest = negative ? -end : 0;
  // The largest f32 below the end is the last number itself where that has few bits.
  const double highest = bits < 32 ? end - 1 : std::nextafterf(static_cast<float>(end), 0.0f);
  Value* inside = b.CreateSelect(b.CreateFCmpOGT(x, real(lowest)), x, real(lowest));
  inside = b.CreateSelect(b.CreateFCmpOLT(inside, real(highest)), inside, real(highest));
  llvm::Type* wide = as_wide(x, b.getInt32Ty());
  Value* result = negative ? b.CreateFPToSI(inside, wide) : b.CreateFPToUI(inside, wide);
  if (bits == 32) {
    const std::uint32_t last = negative ? 0x7fffffffu : 0xffffffffu;
    result =
        b.CreateSelect(b.CreateFCmpOGE(x, real(end)), llvm::ConstantInt::get(wide, last), result);
  }
  result = b.CreateSelect(b.CreateFCmpUNO(x, x), llvm::Constant::getNullValue(wide), result);
  return b.CreateTrunc(result, as_wide(x, b.getIntNTy(static_cast<unsigned>(bits))));
}

}  // namespace

void use_half_instructions(llvm::Module& module) {
  module.getOrInsertNamedMetadata(kHalfInstructions);
}

llvm::Type* register_type(llvm::LLVMContext& context, DType dtype, int width) {
  llvm::Type* element = nullptr;
  if (dtype == DType::pred) {
    element = llvm::Type::getInt1Ty(context);
  } else {
    return memory_type(context, dtype, width);
  }
  return width == 1 ? element : llvm::FixedVectorType::get(element, static_cast<unsigned>(width));
}

llvm::Type* memory_type(llvm::LLVMContext& context, DType dtype, int width) {
  llvm::Type* element = nullptr;
  if (dtype == DType::f32) {
    element = llvm::Type::getFloatTy(context);
  } else if (dtype == DType::f64) {
    element = llvm::Type::getDoubleTy(context);
  } else {
    element = llvm::IntegerType::get(context, static_cast<unsigned>(8 * ir::dtype_bytes(dtype)));
  }
  return width == 1 ? element : llvm::FixedVectorType::get(element, static_cast<unsigned>(width));
}

Value* to_register(llvm::IRBuilderBase& b, Value* value, DType dtype) {
  return dtype == DType::pred ? b.CreateIsNotNull(value) : value;
}

Value* to_memory(llvm::IRBuilderBase& b, Value* value, DType dtype) {
  return dtype == DType::pred ? b.CreateZExt(value, as_wide(value, b.getInt8Ty())) : value;
}

Value* widen_to_float(llvm::IRBuilderBase& b, Value* value, DType dtype) {
  if (dtype == DType::bf16) {
    Value* bits = b.CreateZExt(value, as_wide(value, b.getInt32Ty()));
    bits = b.CreateShl(bits, llvm::ConstantInt::get(bits->getType(), 16));
    return b.CreateBitCast(bits, as_wide(value, b.getFloatTy()));
  }
  if (dtype == DType::f16) return widen_f16_quiet(b, value);
  return value;
}

Value* narrow_from_float(llvm::IRBuilderBase& b, Value* value, DType dtype, bool of_arithmetic) {
  if (dtype == DType::bf16) return narrow_bf16(b, value, of_arithmetic);
  if (dtype == DType::f16) return narrow_f16_fast(b, value);
  return value;
}

Value* emit_convert(llvm::IRBuilderBase& b, Value* value, DType from, DType to) {
  if (from == to) return value;
  const bool from_float = ir::is_floating(from);
  const bool to_float = ir::is_floating(to);
  if (from_float) {
    value = from == DType::f16 && to_float && ir::dtype_bytes(to) > 2
                ? widen_f16(b, value)
                : widen_to_float(b, value, from);
  }
  llvm::Type* type = as_wide(value, register_type(b.getContext(), to, 1));
  if (to == DType::pred) {
    return from_float ? b.CreateFCmpUNE(value, llvm::Constant::getNullValue(value->getType()))
                      : b.CreateIsNotNull(value);
  }
  if (!from_float && !to_float) return b.CreateIntCast(value, type, is_signed(from));
  if (!to_float && from != DType::f64 && ir::dtype_bytes(to) <= 4) return saturate(b, value, to);
  if (!to_float) {
    const auto intrinsic =
        is_signed(to) ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
    return b.CreateIntrinsic(intrinsic, {type, value->getType()}, {value});
  }
  // Everything but f64 reaches a 16-bit float by way of f32.
  llvm::Type* wide = as_wide(value, to == DType::f64 ? b.getDoubleTy() : b.getFloatTy());
  if (from_float) {
    value = b.CreateFPCast(value, wide);
  } else {
    value = is_signed(from) ? b.CreateSIToFP(value, wide) : b.CreateUIToFP(value, wide);
  }
  return narrow_from_float(b, value, to);
}

llvm::Constant* literal_element(llvm::LLVMContext& context, const ir::Literal& literal,
                                std::int64_t index) {
  const DType dtype = literal.shape().dtype();
  const auto size = static_cast<std::size_t>(ir::dtype_bytes(dtype));
  std::uint64_t bits = 0;
  std::memcpy(&bits, literal.bytes().data() + static_cast<std::size_t>(index) * size, size);
  llvm::Type* type = register_type(context, dtype, 1);
  if (dtype == DType::pred) return llvm::ConstantInt::get(type, bits != 0);
  if (dtype == DType::f32) {
    return llvm::ConstantFP::get(context,
                                 llvm::APFloat(llvm::APFloat::IEEEsingle(), llvm::APInt(32, bits)));
  }
  if (dtype == DType::f64) {
    return llvm::ConstantFP::get(context,
                                 llvm::APFloat(llvm::APFloat::IEEEdouble(), llvm::APInt(64, bits)));
  }
  return llvm::ConstantInt::get(type, bits);
}

}  // namespace plimsoll::jit
