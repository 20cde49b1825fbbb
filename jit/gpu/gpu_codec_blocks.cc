// SPDX-License-Identifier: Apache-2.0
// int8, int4 and int2 (kernels/cpu/codecs/codec_blockwise.cc says what they are): eight threads a
// block of 64 elements, each of which draws its eight random numbers with one block of Philox.
#include <array>

#include "jit/emit/elementwise.h"
#include "jit/gpu/gpu_codec_code.h"
#include "jit/gpu/gpu_philox.h"
#include "jit/graph/reduction_shape.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

using ir::DType;
using llvm::Value;

constexpr std::int64_t kQuantized = ir::kQuantizedBlock;
constexpr std::int64_t kOwnElements = 8;  // elements of a thread
constexpr int kBlockLanes = static_cast<int>(kQuantized / kOwnElements);
constexpr std::int64_t kCodecTile = kBlockThreads * kOwnElements;  // of a block of threads

// Where codes lie: the scales, then several multiples to a byte, each with a bias added.
struct BlocksLayout {
  std::int64_t count;
  int bits;
  std::int64_t blocks() const { return divide_up(count, kQuantized); }
  int per_byte() const { return 8 / bits; }
  // Of a block, whole or the last one.
  std::int64_t bytes_of(std::int64_t elements) const { return divide_up(elements, per_byte()); }
  std::int64_t begin() const { return 2 * blocks(); }
  std::int64_t last() const { return count - (blocks() - 1) * kQuantized; }  // elements of that one
  int most() const { return (1 << (bits - 1)) - 1; }
  int bias() const { return bits == 8 ? 0 : 1 << (bits - 1); }
};

BlocksLayout layout_of(const CodecWriter& codec) {
  return {codec.count(), ir::codec_info(codec.codec.kind).layout.bits};
}

class Encoder {
 public:
  explicit Encoder(const CodecWriter& codec)
      : codec_(codec),
        layout_(layout_of(codec)),
        is_wide_(codec.dtype() == DType::f64),
        entry_(codec.writer, kBlockThreads),
        b_(entry_.builder()),
        type_(is_wide_ ? b_.getDoubleTy() : b_.getFloatTy()) {}

  void write() {
    Value* in_block = b_.CreateIntCast(entry_.thread_in_block(), entry_.index_type(), false);
    Value* thread = entry_.thread();
    Value* first = b_.CreateMul(thread, entry_.number(kOwnElements));
    Value* rest = thread;
    Value* lane = entry_.split(&rest, kBlockLanes);
    Value* block = rest;
    // Elements behind the last one count as zeros.
    for (std::int64_t i = 0; i < kOwnElements; ++i) values_[at(i)] = element(first, i);
    Value* greatest = greatest_of_block();
    Value* scale = scale_of(greatest);
    Value* has_none = b_.CreateFCmpOLT(scale, real(b_.getFloatTy(), 0));
    Value* is_zero = b_.CreateFCmpOEQ(scale, real(b_.getFloatTy(), 0));
    Value* divisor = b_.CreateSelect(is_zero, real(b_.getFloatTy(), 1), scale);
    if (is_wide_) divisor = b_.CreateFPExt(divisor, type_);
    Value* multiples = entry_.share(b_.getInt8Ty(), kCodecTile);
    write_multiples(thread, in_block, divisor, multiples);
    // The threads of a block are of one warp.
    entry_.warp_barrier();
    Value* exists = b_.CreateICmpULT(block, entry_.number(layout_.blocks()));
    entry_.when(exists, [&] {
      write_codes(block, in_block, lane, multiples);
      entry_.when(b_.CreateIsNull(lane), [&] {
        Value* bits = b_.CreateLShr(b_.CreateBitCast(scale, b_.getInt32Ty()), 16);
        entry_.store_element(entry_.function().output(0), DType::u16, block,
                             b_.CreateTrunc(bits, b_.getInt16Ty()));
        report_loss(entry_, has_none);
      });
    });
    entry_.launch(layout_.blocks() * kBlockLanes);
  }

 private:
  llvm::Constant* real(llvm::Type* type, double x) { return llvm::ConstantFP::get(type, x); }

  Value* element(Value* first, std::int64_t i) {
    Value* place = b_.CreateAdd(first, entry_.number(i));
    Value* exists = b_.CreateICmpULT(place, entry_.number(codec_.count()));
    // Some element is there.
    Value* read = b_.CreateSelect(exists, place, entry_.number(0));
    Value* value = entry_.load_element(entry_.function().input(0), codec_.dtype(), read);
    return b_.CreateSelect(exists, value, real(type_, 0));
  }

  // Magnitudes order as integers, NaNs last.
  Value* greatest_of_block() {
    llvm::IntegerType* word = b_.getIntNTy(is_wide_ ? 64 : 32);
    const auto most = [&](Value* x, Value* y) {
      return b_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, x, y);
    };
    Value* greatest = llvm::ConstantInt::get(word, 0);
    for (Value* value : values_) {
      Value* size = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, value);
      greatest = most(greatest, b_.CreateBitCast(size, word));
    }
    for (int offset = kBlockLanes / 2; offset > 0; offset /= 2) {
      greatest = most(greatest, entry_.from_lane_above(greatest, offset, kBlockLanes));
    }
    greatest = entry_.from_lane(greatest, b_.getInt32(0), kBlockLanes);
    return b_.CreateBitCast(greatest, type_);
  }

  Value* is_finite(Value* x) {
    Value* size = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
    return b_.CreateFCmpOLT(size, llvm::ConstantFP::getInfinity(x->getType()));
  }

  // An f32; -1 where there is none.
  Value* scale_of(Value* greatest) {
    llvm::Type* f32 = b_.getFloatTy();
    Value* limit = real(type_, layout_.most());
    Value* quotient = b_.CreateFDiv(greatest, limit);
    Value* near = is_wide_ ? b_.CreateFPTrunc(quotient, f32) : quotient;
    const auto as_type = [&](Value* bits) {
      Value* scale = b_.CreateBitCast(bits, f32);
      return is_wide_ ? b_.CreateFPExt(scale, type_) : scale;
    };
    Value* bits = b_.CreateBitCast(near, b_.getInt32Ty());
    bits = b_.CreateAnd(b_.CreateAdd(bits, b_.getInt32(0xffffu)), b_.getInt32(0xffff0000u));
    // The quotient may have been rounded down.
    Value* is_short = b_.CreateFCmpOLT(b_.CreateFMul(as_type(bits), limit), greatest);
    bits = b_.CreateSelect(is_short, b_.CreateAdd(bits, b_.getInt32(0x10000u)), bits);
    Value* scale = b_.CreateBitCast(bits, f32);
    Value* fine = b_.CreateAnd(is_finite(greatest), is_finite(near));
    fine = b_.CreateAnd(fine, is_finite(scale));
    fine = b_.CreateAnd(fine, is_finite(b_.CreateFMul(as_type(bits), limit)));
    return b_.CreateSelect(fine, scale, real(f32, -1));
  }

  // Of this thread's elements, into shared memory.
  void write_multiples(Value* thread, Value* in_block, Value* divisor, Value* multiples) {
    const PhiloxState state{b_.getInt64(codec_.codec.seed),
                            b_.CreateIntCast(thread, b_.getInt64Ty(), false), b_.getInt64(0)};
    const auto words = philox_block(b_, state);
    Value* own = b_.CreateMul(in_block, entry_.number(kOwnElements));
    for (std::int64_t i = 0; i < kOwnElements; ++i) {
      Value* quotient = b_.CreateFDiv(values_[at(i)], divisor);
      // What has no scale may not fit; nobody reads what comes of it.
      Value* fits = b_.CreateFCmpOLT(b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, quotient),
                                     real(type_, 0x1p20));
      quotient = b_.CreateSelect(fits, quotient, real(type_, 0));
      Value* toward_zero = b_.CreateFPToSI(quotient, b_.getInt32Ty());
      Value* above = b_.CreateFCmpOLT(quotient, b_.CreateSIToFP(toward_zero, type_));
      Value* below = b_.CreateSub(toward_zero, b_.CreateZExt(above, b_.getInt32Ty()));
      Value* fraction = b_.CreateFSub(quotient, b_.CreateSIToFP(below, type_));
      Value* draw = b_.CreateAnd(b_.CreateLShr(words[at(i / 2)], i % 2 * 16), 0xffffu);
      draw = b_.CreateFMul(b_.CreateFAdd(b_.CreateSIToFP(draw, type_), real(type_, 0.5)),
                           real(type_, 0x1p-16));
      Value* up = b_.CreateZExt(b_.CreateFCmpOLT(draw, fraction), b_.getInt32Ty());
      Value* multiple = b_.CreateTrunc(b_.CreateAdd(below, up), b_.getInt8Ty());
      b_.CreateStore(multiple, b_.CreateInBoundsGEP(b_.getInt8Ty(), multiples,
                                                    b_.CreateAdd(own, entry_.number(i))));
    }
  }

  // The bytes of a block, shared out among its threads: byte i holds the elements i, n + i, ... for
  // n bytes, from its lowest bits up.
  void write_codes(Value* block, Value* in_block, Value* lane, Value* multiples) {
    Value* is_last = b_.CreateICmpEQ(block, entry_.number(layout_.blocks() - 1));
    const auto by_block = [&](std::int64_t whole, std::int64_t last) -> Value* {
      if (whole == last) return entry_.number(whole);
      return b_.CreateSelect(is_last, entry_.number(last), entry_.number(whole));
    };
    Value* elements = by_block(kQuantized, layout_.last());
    Value* bytes = by_block(layout_.bytes_of(kQuantized), layout_.bytes_of(layout_.last()));
    Value* from = b_.CreateMul(b_.CreateSub(in_block, lane), entry_.number(kOwnElements));
    Value* to = b_.CreateAdd(b_.CreateMul(block, entry_.number(layout_.bytes_of(kQuantized))),
                             entry_.number(layout_.begin()));
    Loop places = Loop::open(b_, lane, bytes, kBlockLanes);
    Value* byte = b_.getInt8(0);
    Value* place = places.variable;
    for (int k = 0; k < layout_.per_byte(); ++k) {
      Value* exists = b_.CreateICmpULT(place, elements);
      Value* multiple =
          b_.CreateLoad(b_.getInt8Ty(),
                        b_.CreateInBoundsGEP(
                            b_.getInt8Ty(), multiples,
                            b_.CreateAdd(from, b_.CreateSelect(exists, place, entry_.number(0)))));
      Value* part = b_.CreateAdd(multiple, b_.getInt8(static_cast<std::uint8_t>(layout_.bias())));
      part = b_.CreateShl(part, static_cast<std::uint64_t>(k * layout_.bits));
      byte = b_.CreateOr(byte, b_.CreateSelect(exists, part, b_.getInt8(0)));
      place = b_.CreateAdd(place, bytes);
    }
    entry_.store_element(entry_.function().output(0), DType::u8, b_.CreateAdd(to, places.variable),
                         byte);
    places.close(b_);
  }

  const CodecWriter& codec_;
  const BlocksLayout layout_;
  const bool is_wide_;
  GpuEntry entry_;
  llvm::IRBuilder<>& b_;
  llvm::Type* const type_;
  std::array<Value*, kOwnElements> values_{};
};

}  // namespace

void write_blocks_encoder(const CodecWriter& codec) { Encoder(codec).write(); }

// A thread an element.
void write_blocks_decoder(const CodecWriter& codec) {
  const BlocksLayout layout = layout_of(codec);
  GpuEntry entry(codec.writer, kBlockThreads);
  llvm::IRBuilder<>& b = entry.builder();
  Value* thread = entry.thread();
  entry.when(b.CreateICmpULT(thread, entry.number(codec.count())), [&] {
    Value* block = thread;
    Value* element = entry.split(&block, kQuantized);
    Value* is_last = b.CreateICmpEQ(block, entry.number(layout.blocks() - 1));
    Value* bytes = b.CreateSelect(is_last, entry.number(layout.bytes_of(layout.last())),
                                  entry.number(layout.bytes_of(kQuantized)));
    // The multiple is the one of number `part` in byte `place`.
    Value* place = element;
    Value* shift = b.getInt8(0);
    for (int k = 1; k < layout.per_byte(); ++k) {
      Value* is_behind = b.CreateICmpUGE(place, bytes);
      place = b.CreateSelect(is_behind, b.CreateSub(place, bytes), place);
      Value* next = b.CreateAdd(shift, b.getInt8(static_cast<std::uint8_t>(layout.bits)));
      shift = b.CreateSelect(is_behind, next, shift);
    }
    Value* codes = b.CreateAdd(b.CreateMul(block, entry.number(layout.bytes_of(kQuantized))),
                               entry.number(layout.begin()));
    Value* byte =
        entry.load_element(entry.function().input(0), DType::u8, b.CreateAdd(codes, place));
    const auto mask = static_cast<std::uint64_t>((1 << layout.bits) - 1);
    Value* multiple = b.CreateAnd(b.CreateLShr(byte, shift), mask);
    multiple = b.CreateSub(multiple, b.getInt8(static_cast<std::uint8_t>(layout.bias())));
    Value* bits = entry.load_element(entry.function().input(0), DType::u16, block);
    bits = b.CreateShl(b.CreateZExt(bits, b.getInt32Ty()), 16);
    Value* scale = b.CreateBitCast(bits, b.getFloatTy());
    llvm::Type* type = codec.dtype() == DType::f64 ? b.getDoubleTy() : b.getFloatTy();
    scale = b.CreateFPCast(scale, type);
    entry.store_element(entry.function().output(0), codec.dtype(), thread,
                        b.CreateFMul(b.CreateSIToFP(multiple, type), scale));
  });
  entry.launch(codec.count());
}

}  // namespace plimsoll::jit
