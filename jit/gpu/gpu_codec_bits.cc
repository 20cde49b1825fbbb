// SPDX-License-Identifier: Apache-2.0
// bit_mask and compare_mask: a thread a byte, which is eight elements, the first in the lowest bit.
#include <algorithm>
#include <vector>

#include "jit/emit/elementwise.h"
#include "jit/gpu/gpu_codec_code.h"
#include "runtime/ir/literal.h"

namespace plimsoll::jit {
namespace {

using ir::CodecKind;
using ir::DType;
using llvm::Value;

constexpr std::int64_t kBits = 8;

// `number` as a constant of the dtype, in a register's form.
llvm::Constant* constant_of(llvm::LLVMContext& context, DType dtype, double number) {
  ir::Literal literal(ir::Shape(dtype, {}));
  literal.set(0, number);
  return literal_element(context, literal, 0);
}

Value* holds(llvm::IRBuilder<>& b, ir::ComparisonDirection direction, Value* value,
             llvm::Constant* constant, DType dtype) {
  using enum ir::ComparisonDirection;
  if (ir::is_floating(dtype)) {
    Value* x = widen_to_float(b, value, dtype);
    Value* y = widen_to_float(b, constant, dtype);
    switch (direction) {
      case eq:
        return b.CreateFCmpOEQ(x, y);
      case ne:
        return b.CreateFCmpUNE(x, y);
      case ge:
        return b.CreateFCmpOGE(x, y);
      case gt:
        return b.CreateFCmpOGT(x, y);
      case le:
        return b.CreateFCmpOLE(x, y);
      case lt:
        return b.CreateFCmpOLT(x, y);
    }
  }
  const bool is_signed = ir::dtype_class(dtype) == ir::DTypeClass::signed_int;
  switch (direction) {
    case eq:
      return b.CreateICmpEQ(value, constant);
    case ne:
      return b.CreateICmpNE(value, constant);
    case ge:
      return is_signed ? b.CreateICmpSGE(value, constant) : b.CreateICmpUGE(value, constant);
    case gt:
      return is_signed ? b.CreateICmpSGT(value, constant) : b.CreateICmpUGT(value, constant);
    case le:
      return is_signed ? b.CreateICmpSLE(value, constant) : b.CreateICmpULE(value, constant);
    case lt:
      return is_signed ? b.CreateICmpSLT(value, constant) : b.CreateICmpULT(value, constant);
  }
  __builtin_unreachable();
}

// Runs f(element, its number among the byte's) for the elements of a byte that there are.
template <typename F>
void for_bits(GpuEntry& entry, Value* byte, std::int64_t count, F f) {
  llvm::IRBuilder<>& b = entry.builder();
  Value* first = b.CreateMul(byte, entry.number(kBits));
  for (std::int64_t i = 0; i < kBits; ++i) {
    Value* element = b.CreateAdd(first, entry.number(i));
    Value* exists = count % kBits == 0 ? nullptr : b.CreateICmpULT(element, entry.number(count));
    entry.when(exists, [&] { f(element, static_cast<std::uint64_t>(i)); });
  }
}

}  // namespace

void write_bits_encoder(const CodecWriter& codec) {
  const std::int64_t bytes = (codec.count() + kBits - 1) / kBits;
  GpuEntry entry(codec.writer, kBlockThreads);
  llvm::IRBuilder<>& b = entry.builder();
  llvm::IRBuilder<> start(entry.function().entry_anchor);
  Value* bits = start.CreateAlloca(b.getInt8Ty());
  Value* seen = start.CreateAlloca(b.getInt8Ty());
  Value* byte = entry.thread();
  entry.when(b.CreateICmpULT(byte, entry.number(bytes)), [&] {
    b.CreateStore(b.getInt8(0), bits);
    b.CreateStore(b.getInt8(0), seen);
    for_bits(entry, byte, codec.count(), [&](Value* element, std::uint64_t i) {
      Value* bit = nullptr;
      if (codec.codec.kind == CodecKind::bit_mask) {
        // As it lies in memory, whatever that is.
        Value* value = entry.load_element(entry.function().input(0), DType::u8, element);
        b.CreateStore(b.CreateOr(b.CreateLoad(b.getInt8Ty(), seen), value), seen);
        bit = b.CreateAnd(value, b.getInt8(1));
      } else {
        Value* value = entry.load_element(entry.function().input(0), codec.dtype(), element);
        llvm::Constant* constant = constant_of(b.getContext(), codec.dtype(), codec.codec.constant);
        bit = b.CreateZExt(holds(b, codec.codec.direction, value, constant, codec.dtype()),
                           b.getInt8Ty());
      }
      b.CreateStore(b.CreateOr(b.CreateLoad(b.getInt8Ty(), bits), b.CreateShl(bit, i)), bits);
    });
    entry.store_element(entry.function().output(0), DType::u8, byte,
                        b.CreateLoad(b.getInt8Ty(), bits));
    report_loss(entry, b.CreateICmpUGT(b.CreateLoad(b.getInt8Ty(), seen), b.getInt8(1)));
  });
  entry.launch(bytes);
}

void write_bits_decoder(const CodecWriter& codec) {
  const std::int64_t bytes = (codec.count() + kBits - 1) / kBits;
  GpuEntry entry(codec.writer, kBlockThreads);
  llvm::IRBuilder<>& b = entry.builder();
  llvm::Constant* yes = b.getTrue();
  llvm::Constant* no = b.getFalse();
  if (codec.codec.kind == CodecKind::compare_mask) {
    const ir::Outcomes outcomes = ir::representatives(codec.codec, codec.dtype());
    yes = constant_of(b.getContext(), codec.dtype(), outcomes.yes);
    no = constant_of(b.getContext(), codec.dtype(), outcomes.no);
  }
  const DType dtype = codec.dtype();
  Value* byte = entry.thread();
  entry.when(b.CreateICmpULT(byte, entry.number(bytes)), [&] {
    Value* bits = entry.load_element(entry.function().input(0), DType::u8, byte);
    const auto value = [&](std::uint64_t i) {
      Value* bit = b.CreateIsNotNull(b.CreateAnd(bits, b.getInt8(std::uint8_t(1u << i))));
      return b.CreateSelect(bit, yes, no);
    };
    // Of a whole byte together, in pieces as large as a thread can write.
    Value* is_whole = b.CreateICmpULT(byte, entry.number(codec.count() / kBits));
    entry.when(is_whole, [&] {
      llvm::Type* type = memory_type(b.getContext(), dtype, kBits);
      Value* values = llvm::PoisonValue::get(type);
      for (std::uint64_t i = 0; i < kBits; ++i) {
        values = b.CreateInsertElement(values, to_memory(b, value(i), dtype), i);
      }
      const std::int64_t alignment =
          std::min<std::int64_t>(kBits * ir::dtype_bytes(dtype), kGpuAlignment);
      b.CreateAlignedStore(values, b.CreateInBoundsGEP(type, entry.function().output(0), byte),
                           llvm::Align(static_cast<std::uint64_t>(alignment)));
    });
    if (codec.count() % kBits == 0) return;
    entry.when(b.CreateNot(is_whole), [&] {
      for_bits(entry, byte, codec.count(), [&](Value* element, std::uint64_t i) {
        entry.store_element(entry.function().output(0), dtype, element, value(i));
      });
    });
  });
  entry.launch(bytes);
}

}  // namespace plimsoll::jit
