// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>

#include "jit/emit/avx512.h"
#include "jit/emit/elementwise.h"
#include "jit/emit/gpu.h"
#include "jit/emit/vector_math.h"

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

// The bits of f32 with the nearest bf16 in their upper half. A NaN of arithmetic on bf16 operands
// is one of them made quiet, or the machine's own: the lower half of its bits is zero, and rounding
// leaves it alone.
Value* round_to_bf16(llvm::IRBuilderBase& b, Value* x, Origin origin) {
  if (gpu::is_target(b)) origin = Origin::any;  // whose NaN has all lower bits set
  Value* plain = origin == Origin::any ? avx512::plain_nan(b, x) : nullptr;
  const bool has_nan = origin == Origin::any && plain == nullptr;
  Value* bits = b.CreateBitCast(plain == nullptr ? x : plain, as_wide(x, b.getInt32Ty()));
  if (origin == Origin::operand) return bits;
  llvm::Type* type = bits->getType();
  const auto number = [&](std::uint32_t n) { return llvm::ConstantInt::get(type, n); };
  Value* result = avx512::round_to_upper_half(b, bits);
  if (result == nullptr) {
    Value* odd = b.CreateICmpNE(b.CreateAnd(bits, number(0x10000)), number(0));
    result = b.CreateAdd(bits, b.CreateSelect(odd, number(0x8000), number(0x7fff)));
  }
  if (!has_nan) return result;
  return b.CreateSelect(b.CreateFCmpUNO(x, x), b.CreateOr(bits, number(0x400000)), result);
}

Value* narrow_bf16(llvm::IRBuilderBase& b, Value* x, Origin origin) {
  if (Value* result = gpu::narrow_bf16(b, x)) return result;
  Value* bits = round_to_bf16(b, x, origin);
  return b.CreateTrunc(b.CreateLShr(bits, llvm::ConstantInt::get(bits->getType(), 16)),
                       as_wide(x, b.getInt16Ty()));
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
Value* widen_f16_quiet(llvm::IRBuilderBase& b, Value* x) {
  if (Value* result = gpu::widen_f16(b, x)) return result;
  Value* result = avx512::widen_f16(b, x);
  return result != nullptr ? result : widen_f16(b, x);
}

Value* narrow_f16_fast(llvm::IRBuilderBase& b, Value* x) {
  if (Value* result = gpu::narrow_f16(b, x)) return result;
  Value* result = avx512::narrow_f16(b, x);
  return result != nullptr ? result : narrow_f16(b, x);
}

// Vectors of 32 bf16 are computed as two of f32: those with even numbers and those with odd ones,
// which a shift and a mask take out of the pairs that they make in 32 bits.
constexpr unsigned kPairedLanes = 32;

bool is_paired(llvm::IRBuilderBase& b, Value* x, DType dtype) {
  return dtype == DType::bf16 && avx512::is_allowed(b, x) &&
         llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements() == kPairedLanes;
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
    if (Value* result = gpu::widen_bf16(b, value)) return result;
    Value* bits = avx512::load_to_upper_halves(b, value);
    if (bits == nullptr) {
      bits = b.CreateZExt(value, as_wide(value, b.getInt32Ty()));
      bits = b.CreateShl(bits, llvm::ConstantInt::get(bits->getType(), 16));
    }
    return b.CreateBitCast(bits, as_wide(value, b.getFloatTy()));
  }
  if (dtype == DType::f16) return widen_f16_quiet(b, value);
  return value;
}

Value* narrow_from_float(llvm::IRBuilderBase& b, Value* value, DType dtype, Origin origin) {
  if (dtype == DType::bf16) return narrow_bf16(b, value, origin);
  if (dtype == DType::f16) return narrow_f16_fast(b, value);
  return value;
}

Value* compute_as_float(llvm::IRBuilderBase& b, llvm::ArrayRef<Value*> operands, DType dtype,
                        Origin origin, FloatComputation compute) {
  std::vector<Value*> wide;
  if (!is_paired(b, operands[0], dtype)) {
    for (Value* operand : operands) wide.push_back(widen_to_float(b, operand, dtype));
    Value* result = compute(wide);
    return result == nullptr ? nullptr : narrow_from_float(b, result, dtype, origin);
  }
  llvm::Type* pairs = llvm::FixedVectorType::get(b.getInt32Ty(), kPairedLanes / 2);
  llvm::Type* floats = llvm::FixedVectorType::get(b.getFloatTy(), kPairedLanes / 2);
  llvm::Constant* upper = llvm::ConstantInt::get(pairs, 0xffff0000);
  llvm::Constant* half = llvm::ConstantInt::get(pairs, 16);
  Value* rounded[2] = {};
  for (const bool odd : {false, true}) {
    wide.clear();
    for (Value* operand : operands) {
      Value* bits = b.CreateBitCast(operand, pairs);
      bits = odd ? b.CreateAnd(bits, upper) : b.CreateShl(bits, half);
      wide.push_back(b.CreateBitCast(bits, floats));
    }
    Value* result = compute(wide);
    if (result == nullptr) return nullptr;
    rounded[odd] = round_to_bf16(b, result, origin);
  }
  Value* result = b.CreateOr(b.CreateAnd(rounded[1], upper), b.CreateLShr(rounded[0], half));
  return b.CreateBitCast(result, operands[0]->getType());
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
