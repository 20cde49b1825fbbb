// SPDX-License-Identifier: Apache-2.0
// narrow, bfloat16 and float16: a thread an element. Bits are moved by integer operations wherever
// an element may be a NaN, of which a GPU's conversions keep neither sign nor payload. NaNs come
// out as kernels/cpu/codecs has them.
#include "jit/emit/elementwise.h"
#include "jit/gpu/gpu_codec_code.h"

namespace plimsoll::jit {
namespace {

using ir::CodecKind;
using ir::DType;
using llvm::Value;

constexpr std::uint32_t kInfinity = 0x7f800000u;

// Code on the bits of numbers.
class BitCode {
 public:
  explicit BitCode(llvm::IRBuilder<>& b) : b_(b) {}

  Value* word(std::uint32_t n) { return b_.getInt32(n); }
  Value* as_bits(Value* x) {
    return b_.CreateBitCast(x, b_.getIntNTy(x->getType()->getScalarSizeInBits()));
  }
  Value* as_f32(Value* bits) { return b_.CreateBitCast(bits, b_.getFloatTy()); }
  Value* magnitude(Value* bits) { return b_.CreateAnd(bits, word(0x7fffffffu)); }
  Value* is_nan64(Value* x) { return b_.CreateFCmpUNO(x, x); }

  // An f64 rounded to f32, as bits; a NaN keeps its sign and the top of its payload, and becomes
  // quiet.
  Value* f32_bits_of_f64(Value* x) {
    Value* bits = as_bits(x);
    Value* payload =
        b_.CreateTrunc(b_.CreateLShr(b_.CreateAnd(bits, 0xfffffffffffffULL), 29), b_.getInt32Ty());
    Value* nan = b_.CreateOr(b_.CreateOr(sign_of_f64(bits), payload), word(kInfinity | 0x400000u));
    Value* rounded = as_bits(b_.CreateFPTrunc(x, b_.getFloatTy()));
    return b_.CreateSelect(is_nan64(x), nan, rounded);
  }

  // An f32's bits as an f64; a NaN keeps its sign and payload, and becomes quiet.
  Value* f64_of_f32_bits(Value* bits) {
    Value* wide = b_.CreateZExt(bits, b_.getInt64Ty());
    Value* sign = b_.CreateShl(b_.CreateLShr(wide, 31), 63);
    Value* payload = b_.CreateShl(b_.CreateAnd(wide, 0x7fffffULL), 29);
    Value* nan = b_.CreateOr(b_.CreateOr(sign, payload), b_.getInt64(0x7ff8000000000000ULL));
    Value* exact = b_.CreateFPExt(as_f32(bits), b_.getDoubleTy());
    Value* is_nan = b_.CreateICmpUGT(magnitude(bits), word(kInfinity));
    return b_.CreateBitCast(b_.CreateSelect(is_nan, nan, as_bits(exact)), b_.getDoubleTy());
  }

  // The f32 that rounds to 16 bits as the f64 does (kernels/cpu/codecs/round_to_odd.h).
  Value* f32_bits_rounded_to_odd(Value* x) {
    Value* bits = f32_bits_of_f64(x);
    Value* back = b_.CreateFPExt(as_f32(bits), b_.getDoubleTy());
    const auto size = [&](Value* v) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v); };
    // Unequal in order: of a NaN neither holds.
    Value* differs = b_.CreateFCmpONE(back, x);
    Value* above = b_.CreateFCmpOGT(size(back), size(x));
    Value* below = b_.CreateSelect(above, b_.CreateSub(bits, word(1)), bits);
    return b_.CreateSelect(differs, b_.CreateOr(below, word(1)), bits);
  }

  // An f16's bits as an f32's, exactly; NaNs keep their payload.
  Value* f32_bits_of_half(Value* half) {
    Value* sign = b_.CreateShl(b_.CreateAnd(half, word(0x8000u)), 16);
    Value* size = b_.CreateAnd(half, word(0x7fffu));
    Value* normal = b_.CreateAdd(b_.CreateShl(size, 13), word(0x38000000u));
    Value* special = b_.CreateOr(b_.CreateShl(size, 13), word(kInfinity));
    Value* subnormal = as_bits(b_.CreateFMul(b_.CreateSIToFP(size, b_.getFloatTy()),
                                             llvm::ConstantFP::get(b_.getFloatTy(), 0x1p-24)));
    Value* bits = b_.CreateSelect(b_.CreateICmpULT(size, word(0x400u)), subnormal, normal);
    bits = b_.CreateSelect(b_.CreateICmpUGE(size, word(0x7c00u)), special, bits);
    return b_.CreateOr(sign, bits);
  }

  // An f32's bits as an f16's: rounded to nearest and NaNs quiet, or exactly where that can be.
  Value* half_of_f32_bits(Value* bits, bool exact) {
    Value* sign = b_.CreateAnd(b_.CreateLShr(bits, 16), word(0x8000u));
    Value* size = magnitude(bits);
    Value* rounded = size;
    if (!exact) {
      Value* odd = b_.CreateAnd(b_.CreateLShr(size, 13), word(1));
      rounded = b_.CreateAdd(b_.CreateAdd(size, word(0xfffu)), odd);
    }
    Value* normal = b_.CreateLShr(b_.CreateSub(rounded, word(0x38000000u)), 13);
    // Adding 0.5 places a subnormal's mantissa in the low bits, rounded by the adder.
    Value* sum = b_.CreateFAdd(as_f32(size), llvm::ConstantFP::get(b_.getFloatTy(), 0.5));
    Value* subnormal = b_.CreateSub(as_bits(sum), word(0x3f000000u));
    Value* half = b_.CreateSelect(b_.CreateICmpULT(size, word(0x38800000u)), subnormal, normal);
    if (!exact)
      half = b_.CreateSelect(b_.CreateICmpUGE(size, word(kBeyondHalf)), word(0x7c00u), half);
    Value* special = b_.CreateOr(b_.CreateAnd(b_.CreateLShr(size, 13), word(0x3ffu)),
                                 word(exact ? 0x7c00u : 0x7e00u));
    Value* is_special =
        exact ? b_.CreateICmpUGE(size, word(kInfinity)) : b_.CreateICmpUGT(size, word(kInfinity));
    return b_.CreateOr(sign, b_.CreateSelect(is_special, special, half));
  }

  // Rounded to nearest, NaNs quiet.
  Value* bf16_of_f32_bits(Value* bits) {
    Value* odd = b_.CreateAnd(b_.CreateLShr(bits, 16), word(1));
    Value* near = b_.CreateLShr(b_.CreateAdd(b_.CreateAdd(bits, word(0x7fffu)), odd), 16);
    Value* nan = b_.CreateOr(b_.CreateLShr(bits, 16), word(0x40u));
    return b_.CreateSelect(b_.CreateICmpUGT(magnitude(bits), word(kInfinity)), nan, near);
  }

  // Whether rounding to 16 bits makes a finite number infinite.
  Value* overflows(Value* bits, DType to) {
    Value* size = magnitude(bits);
    return b_.CreateAnd(b_.CreateICmpUGE(size, word(to == DType::bf16 ? 0x7f7f8000u : kBeyondHalf)),
                        b_.CreateICmpULT(size, word(kInfinity)));
  }

 private:
  static constexpr std::uint32_t kBeyondHalf = 0x477ff000u;  // the least that rounds to infinity

  Value* sign_of_f64(Value* bits) {
    return b_.CreateShl(b_.CreateTrunc(b_.CreateLShr(bits, 63), b_.getInt32Ty()), 31);
  }

  llvm::IRBuilder<>& b_;
};

bool is_signed(DType dtype) { return ir::dtype_class(dtype) == ir::DTypeClass::signed_int; }
bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

// Elements of one dtype as those of a smaller one, and back; both as registers have them.
class Narrowing {
 public:
  Narrowing(llvm::IRBuilder<>& b, DType wide, DType narrow)
      : b_(b), bits_(b), wide_(wide), narrow_(narrow) {}

  // Whatever it is of an element that the narrow dtype does not have.
  Value* shrink(Value* value) {
    if (!ir::is_floating(wide_)) return b_.CreateIntCast(value, type_of(narrow_), false);
    if (ir::is_floating(narrow_)) {
      Value* bits = f32_bits(value);
      if (narrow_ == DType::f32) return bits_.as_f32(bits);
      if (narrow_ == DType::bf16) return b_.CreateTrunc(b_.CreateLShr(bits, 16), b_.getInt16Ty());
      return b_.CreateTrunc(bits_.half_of_f32_bits(bits, true), b_.getInt16Ty());
    }
    // Out of range is undefined for a conversion: such values, and NaNs, become zero.
    Value* number = is_half(wide_) ? bits_.as_f32(f32_bits(value)) : value;
    const unsigned middle = ir::dtype_bytes(narrow_) <= 2 ? 32 : 64;
    Value* limit = llvm::ConstantFP::get(number->getType(), middle == 32 ? 0x1p31 : 0x1p63);
    Value* size = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, number);
    Value* inside = b_.CreateSelect(b_.CreateFCmpOLT(size, limit), number,
                                    llvm::Constant::getNullValue(number->getType()));
    Value* whole = b_.CreateFPToSI(inside, b_.getIntNTy(middle));
    return b_.CreateIntCast(whole, type_of(narrow_), false);
  }

  Value* expand(Value* value) {
    if (!ir::is_floating(wide_)) {
      return b_.CreateIntCast(value, type_of(wide_), is_signed(narrow_));
    }
    if (ir::is_floating(narrow_)) {
      Value* bits = nullptr;
      if (narrow_ == DType::f32) {
        bits = bits_.as_bits(value);
      } else {
        Value* half = b_.CreateZExt(value, b_.getInt32Ty());
        bits = narrow_ == DType::bf16 ? b_.CreateShl(half, 16) : bits_.f32_bits_of_half(half);
      }
      return wide_ == DType::f64 ? bits_.f64_of_f32_bits(bits) : bits_.as_f32(bits);
    }
    return emit_convert(b_, value, narrow_, wide_);
  }

  Value* differ(Value* a, Value* b) { return b_.CreateICmpNE(bits_.as_bits(a), bits_.as_bits(b)); }

 private:
  llvm::Type* type_of(DType dtype) { return register_type(b_.getContext(), dtype, 1); }
  // Of a wide float: an f64 is rounded.
  Value* f32_bits(Value* value) {
    if (wide_ == DType::f64) return bits_.f32_bits_of_f64(value);
    if (wide_ == DType::f32) return bits_.as_bits(value);
    Value* half = b_.CreateZExt(value, b_.getInt32Ty());
    return wide_ == DType::bf16 ? b_.CreateShl(half, 16) : bits_.f32_bits_of_half(half);
  }

  llvm::IRBuilder<>& b_;
  BitCode bits_;
  const DType wide_, narrow_;
};

}  // namespace

void write_elements_encoder(const CodecWriter& codec) {
  GpuEntry entry(codec.writer, kBlockThreads);
  llvm::IRBuilder<>& b = entry.builder();
  const DType stored = ir::stored_dtype(codec.codec);
  Value* thread = entry.thread();
  entry.when(b.CreateICmpULT(thread, entry.number(codec.count())), [&] {
    Value* value = entry.load_element(entry.function().input(0), codec.dtype(), thread);
    Value* code = nullptr;
    Value* lost = nullptr;
    if (codec.codec.kind == CodecKind::narrow) {
      Narrowing narrowing(b, codec.dtype(), stored);
      code = narrowing.shrink(value);
      lost = narrowing.differ(narrowing.expand(code), value);
    } else {
      BitCode bits(b);
      Value* near =
          codec.dtype() == DType::f64 ? bits.f32_bits_rounded_to_odd(value) : bits.as_bits(value);
      lost = bits.overflows(near, stored);
      code =
          stored == DType::bf16 ? bits.bf16_of_f32_bits(near) : bits.half_of_f32_bits(near, false);
      code = b.CreateTrunc(code, b.getInt16Ty());
    }
    entry.store_element(entry.function().output(0), stored, thread, code);
    report_loss(entry, lost);
  });
  entry.launch(codec.count());
}

void write_elements_decoder(const CodecWriter& codec) {
  GpuEntry entry(codec.writer, kBlockThreads);
  llvm::IRBuilder<>& b = entry.builder();
  const DType stored = ir::stored_dtype(codec.codec);
  Value* thread = entry.thread();
  entry.when(b.CreateICmpULT(thread, entry.number(codec.count())), [&] {
    Value* code = entry.load_element(entry.function().input(0), stored, thread);
    entry.store_element(entry.function().output(0), codec.dtype(), thread,
                        Narrowing(b, codec.dtype(), stored).expand(code));
  });
  entry.launch(codec.count());
}

}  // namespace plimsoll::jit
