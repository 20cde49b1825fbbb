// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "jit/emit/elementwise.h"
#include "jit/gpu/gpu_sweep.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

using llvm::Value;

// So many blocks' results a thread reads at once, and combines by itself.
constexpr std::int64_t kBlocksAtOnce = 32;
// Results that lie side by side, of a block of threads.
constexpr std::int64_t kCombinedResults = 32;
constexpr std::int64_t kCombinedBytes = 32 << 10;
// Read from shared memory before they are combined.
constexpr std::int64_t kCombinedAhead = 16;

// Combines the blocks' results in order. Of a few blocks a thread reads all, a result each. Of
// many, the threads of a block bring pieces of them into shared memory, neighbours by neighbours,
// where one thread a result takes them in order: what takes turns is adding alone.
//
// Example: 2048 blocks of one result: 256 threads bring 16 each, 4096 at a time.
class GpuCombination final : public GpuSweep {
 public:
  using GpuSweep::GpuSweep;

  Status write() {
    emitter().open_lanes(1, 1);
    const Affine position = finisher_.space().add_loop(shape_.kept, 1);
    finisher_.emitter().open_lanes(1, 1);
    return shape_.blocks() <= kBlocksAtOnce ? write_few(position) : write_many(position);
  }

 private:
  llvm::ConstantInt* number(std::int64_t n) { return b_.getInt64(static_cast<std::uint64_t>(n)); }
  llvm::Type* type_of(std::size_t c) {
    return memory_type(b_.getContext(), plan_.accumulators[c], 1);
  }

  // What block `block` has for result `kept`; both are i64.
  GpuValues partial(Value* block, Value* kept) {
    Value* place = b_.CreateAdd(b_.CreateMul(block, number(shape_.kept)), kept);
    GpuValues values;
    for (std::size_t c = 0; c < plan_.accumulators.size(); ++c) {
      Value* base =
          b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), entry_.function().workspace,
                                        static_cast<std::uint64_t>(plan_.partial_offset[c]));
      Value* address = b_.CreateInBoundsGEP(type_of(c), base, place);
      values.push_back(to_register(b_, b_.CreateLoad(type_of(c), address), plan_.accumulators[c]));
    }
    return values;
  }

  Status write_few(const Affine& position) {
    Value* kept = entry_.thread();
    Value* exists = b_.CreateICmpULT(kept, entry_.number(shape_.kept));
    entry_.when(exists, [&] {
      finisher_.emitter().bind_lane(position, kept);
      Value* wide = b_.CreateZExt(kept, b_.getInt64Ty());
      std::vector<GpuValues> partials;
      for (std::int64_t block = 0; block < shape_.blocks(); ++block) {
        partials.push_back(partial(number(block), wide));
      }
      GpuValues running = finisher_.initial();
      for (const GpuValues& one : partials) running = finisher_.combine_all(running, one);
      finisher_.finish(position, running);
    });
    return finish(shape_.kept);
  }

  Status write_many(const Affine& position) {
    const auto results = std::min<std::int64_t>(
        kCombinedResults,
        static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(shape_.kept))));
    const std::int64_t readers = kBlockThreads / results;  // of a result
    std::int64_t bytes = 0;
    for (const ir::DType dtype : plan_.accumulators) bytes += ir::dtype_bytes(dtype);
    const std::int64_t each = std::clamp<std::int64_t>(kCombinedBytes / (kBlockThreads * bytes), 1,
                                                       divide_up(shape_.blocks(), readers));
    const std::int64_t piece = readers * each;
    GpuValues shared;
    for (std::size_t c = 0; c < plan_.accumulators.size(); ++c) {
      shared.push_back(entry_.share(type_of(c), piece * results));
    }

    Value* reader = b_.CreateIntCast(entry_.thread_in_block(), entry_.index_type(), false);
    Value* own = entry_.split(&reader, results);
    Value* kept = b_.CreateAdd(b_.CreateMul(entry_.block_in_grid(), entry_.number(results)), own);
    Value* exists = b_.CreateICmpULT(kept, entry_.number(shape_.kept));
    kept = b_.CreateSelect(exists, kept, entry_.number(shape_.kept - 1));
    Value* combines = b_.CreateAnd(exists, b_.CreateIsNull(reader));
    Value* wide = b_.CreateZExt(kept, b_.getInt64Ty());
    finisher_.emitter().bind_lane(position, kept);
    GpuSlots running(entry_, plan_, 1, 1);
    running.start(0, finisher_.initial());

    // Element `i` (i64) of the piece, of this thread's result.
    const auto place = [&](std::size_t c, Value* i) {
      Value* element =
          b_.CreateAdd(b_.CreateMul(i, number(results)), b_.CreateZExt(own, b_.getInt64Ty()));
      return b_.CreateInBoundsGEP(type_of(c), shared[c], element);
    };
    Loop pieces = Loop::open(b_, number(0), number(shape_.blocks()), piece);
    std::vector<GpuValues> brought;
    std::vector<Value*> at_piece;
    for (std::int64_t i = 0; i < each; ++i) {
      at_piece.push_back(b_.CreateAdd(b_.CreateZExt(reader, b_.getInt64Ty()), number(i * readers)));
      Value* block = b_.CreateAdd(pieces.variable, at_piece.back());
      block = least(block, number(shape_.blocks() - 1));
      brought.push_back(partial(block, wide));
    }
    entry_.barrier();  // the piece before has been combined
    for (std::int64_t i = 0; i < each; ++i) {
      for (std::size_t c = 0; c < shared.size(); ++c) {
        b_.CreateStore(to_memory(b_, brought[at(i)][c], plan_.accumulators[c]),
                       place(c, at_piece[at(i)]));
      }
    }
    entry_.barrier();
    entry_.when(combines, [&] {
      Value* count = least(b_.CreateSub(number(shape_.blocks()), pieces.variable), number(piece));
      Value* whole =
          b_.CreateMul(b_.CreateUDiv(count, number(kCombinedAhead)), number(kCombinedAhead));
      const auto take = [&](Value* from, Value* to, std::int64_t step) {
        Loop loop = Loop::open(b_, from, to, step);
        std::vector<GpuValues> next(at(step));
        for (std::int64_t i = 0; i < step; ++i) {
          Value* element = b_.CreateAdd(loop.variable, number(i));
          for (std::size_t c = 0; c < shared.size(); ++c) {
            next[at(i)].push_back(to_register(b_, b_.CreateLoad(type_of(c), place(c, element)),
                                              plan_.accumulators[c]));
          }
        }
        GpuValues total = running.load(0);
        for (const GpuValues& one : next) total = finisher_.combine_all(total, one);
        running.start(0, total);
        loop.close(b_);
      };
      take(number(0), whole, kCombinedAhead);
      take(whole, count, 1);
    });
    pieces.close(b_);
    entry_.when(combines, [&] { finisher_.finish(position, running.load(0)); });
    return finish(divide_up(shape_.kept, results) * kBlockThreads);
  }
};

}  // namespace

Status write_gpu_combination(GpuWriter& writer, const ReductionPlan& plan) {
  return GpuCombination(writer, plan).write();
}

}  // namespace plimsoll::jit
