// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "jit/emit/elementwise.h"
#include "jit/gpu/gpu_library.h"
#include "jit/gpu/gpu_philox.h"
#include "runtime/base/philox.h"
#include "runtime/ir/shapes/shape_inference.h"

namespace plimsoll::jit {
namespace {

using llvm::Value;

PhiloxState load_random_state(GpuEntry& entry, std::int64_t words) {
  llvm::IRBuilder<>& b = entry.builder();
  const auto word = [&](std::uint64_t i) {
    return b.CreateLoad(b.getInt64Ty(),
                        b.CreateConstInBoundsGEP1_64(b.getInt64Ty(), entry.function().input(0), i));
  };
  return {word(0), word(1), word(words >= 3 ? 2 : 0)};
}

PhiloxState advanced(llvm::IRBuilder<>& b, const PhiloxState& state, Value* blocks) {
  Value* low = b.CreateAdd(state.low, blocks);
  Value* carry = b.CreateZExt(b.CreateICmpULT(low, blocks), b.getInt64Ty());
  return {state.key, low, b.CreateAdd(state.high, carry)};
}

}  // namespace

std::array<Value*, 4> philox_block(llvm::IRBuilder<>& b, const PhiloxState& state) {
  const auto low = [&](Value* x) { return b.CreateTrunc(x, b.getInt32Ty()); };
  const auto high = [&](Value* x) { return low(b.CreateLShr(x, 32)); };
  std::array<Value*, 4> c = {low(state.low), high(state.low), low(state.high), high(state.high)};
  Value* k0 = low(state.key);
  Value* k1 = high(state.key);
  for (int round = 0; round < 10; ++round) {
    const auto product = [&](Value* x, std::uint64_t by) {
      return b.CreateMul(b.CreateZExt(x, b.getInt64Ty()), b.getInt64(by));
    };
    Value* p0 = product(c[0], 0xD2511F53u);
    Value* p1 = product(c[2], 0xCD9E8D57u);
    c = {b.CreateXor(b.CreateXor(high(p1), c[1]), k0), low(p1),
         b.CreateXor(b.CreateXor(high(p0), c[3]), k1), low(p0)};
    k0 = b.CreateAdd(k0, b.getInt32(0x9E3779B9u));
    k1 = b.CreateAdd(k1, b.getInt32(0xBB67AE85u));
  }
  return c;
}

// A thread a block of four words; the first one also stores the new state, which is the old one's
// buffer where that may be: so the state is stored by a launch of its own.
Status write_gpu_random_bits(GpuWriter& writer) {
  const ir::Shape& state_shape = writer.instruction.operand(0)->shape();
  if (!ir::is_random_state(state_shape)) {
    return refuse(writer.instruction, "has the state " + state_shape.to_string() +
                                          " (u64[2] and u64[3] are supported)");
  }
  const std::int64_t words = state_shape.element_count();
  const ir::Shape& result = writer.instruction.shape().elements()[1];
  const std::int64_t count = result.element_count();
  const int bytes = ir::dtype_bytes(result.dtype());
  const std::int64_t per_block = philox::elements_per_block(bytes);
  const std::int64_t blocks = philox::block_count(count, bytes);
  if (count > 0) {
    GpuEntry entry(writer, kBlockThreads);
    llvm::IRBuilder<>& b = entry.builder();
    Value* block = entry.thread();
    entry.when(b.CreateICmpULT(block, entry.number(blocks)), [&] {
      const PhiloxState state = load_random_state(entry, words);
      const auto drawn = philox_block(b, advanced(b, state, b.CreateZExt(block, b.getInt64Ty())));
      llvm::Type* type = b.getIntNTy(static_cast<unsigned>(8 * bytes));
      Value* first = b.CreateMul(block, entry.number(per_block));
      for (std::int64_t i = 0; i < per_block; ++i) {
        const auto n = static_cast<std::size_t>(i);
        Value* value = nullptr;
        if (bytes == 8) {
          value = b.CreateOr(b.CreateZExt(drawn[2 * n], type),
                             b.CreateShl(b.CreateZExt(drawn[2 * n + 1], type), 32));
        } else {
          value = drawn[n];
          if (result.dtype() == ir::DType::pred) value = b.CreateAnd(value, b.getInt32(1));
          value = b.CreateTrunc(value, type);
        }
        Value* place = b.CreateAdd(first, entry.number(i));
        Value* exists =
            count % per_block == 0 ? nullptr : b.CreateICmpULT(place, entry.number(count));
        entry.when(exists, [&] {
          b.CreateStore(value, b.CreateInBoundsGEP(type, entry.function().output(1), place));
        });
      }
    });
    entry.launch(blocks);
  }
  GpuEntry entry(writer, kWarp);
  llvm::IRBuilder<>& b = entry.builder();
  entry.when(b.CreateIsNull(entry.thread()), [&] {
    const PhiloxState next = advanced(b, load_random_state(entry, words),
                                      b.getInt64(static_cast<std::uint64_t>(blocks)));
    const std::array<Value*, 3> values = {next.key, next.low, next.high};
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(words); ++i) {
      b.CreateStore(values[i],
                    b.CreateConstInBoundsGEP1_64(b.getInt64Ty(), entry.function().output(0), i));
    }
  });
  entry.launch(1);
  return ok_status();
}

}  // namespace plimsoll::jit
