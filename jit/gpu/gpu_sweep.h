// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "jit/emit/value_emitter.h"
#include "jit/gpu/gpu_entry.h"
#include "jit/reductions/reduction_plan.h"

// What the kernels of a reduction are written with (gpu_reductions.h).
namespace plimsoll::jit {

using GpuValues = std::vector<llvm::Value*>;

// Accumulators: slot i of every component, and whether it holds something.
class GpuSlots {
 public:
  GpuSlots(GpuEntry& entry, const ReductionPlan& plan, std::int64_t count, int width);

  std::size_t count() const { return values_.size(); }
  llvm::Value* is_full(std::size_t slot) { return b_.CreateLoad(b_.getInt1Ty(), full_[slot]); }
  GpuValues load(std::size_t slot);
  // What is there before the first element.
  void start(std::size_t slot, const GpuValues& values);
  void store(std::size_t slot, const GpuValues& values);

 private:
  llvm::IRBuilder<>& b_;
  const ReductionPlan& plan_;
  std::vector<GpuValues> values_;
  GpuValues full_;
};

// What the sweeps share. An element that is read together with others, before any of them is
// combined or stored, has an emitter of its own among `emitters_`.
class GpuSweep {
 public:
  GpuSweep(GpuWriter& writer, const ReductionPlan& plan);

 protected:
  // So many bytes of the widest operand a thread reads before it waits for the first, which keeps
  // the memory busy with half of the threads that a multiprocessor may have.
  static constexpr std::int64_t kBytesAhead = 64;
  // And no more than this of code, in instructions of the graph.
  static constexpr std::int64_t kMostUnrolled = 256;

  Status finish(std::int64_t threads);

  // `count` emitters in all.
  void make_emitters(std::int64_t count);
  ValueEmitter& emitter(std::int64_t i = 0) { return *emitters_[static_cast<std::size_t>(i)]; }
  void bind(const Affine& loop, llvm::Value* value);
  // Code for what is constant in the loops of deeper levels stands here.
  void open_level(int level);

  // A power of two, 1 to `most`: as many elements of `width` each as should be read together.
  std::int64_t choose_together(std::int64_t width, std::int64_t most) const;

  // Every accumulator at its start: what the reducers say, else empty.
  void fill(GpuSlots& slots);
  // The elements of all reducers at the emitter's place, and those of the swept roots behind them.
  GpuValues elements(ValueEmitter& emitter, const Index& index);
  // Stores the swept roots among `elements`.
  void store_swept(ValueEmitter& emitter, const Index& index, const GpuValues& elements);
  void accumulate(GpuSlots& slots, std::size_t slot, const GpuValues& elements);
  // `total` and then `next`, which is there where `exists` holds (null: always).
  GpuValues joined(const GpuValues& total, const GpuValues& next, llvm::Value* exists);
  static GpuValues part(const GpuValues& all, const Reducer& reducer) {
    return GpuValues(all.begin() + reducer.first,
                     all.begin() + reducer.first + reducer.components());
  }

  // Results `kept` (of the emitter of the finisher's lanes) where nothing is cut, else into the
  // workspace, as [component][block][result].
  void give(const GpuValues& totals, llvm::Value* kept, llvm::Value* block);

  llvm::Value* least(llvm::Value* a, llvm::Value* b) {
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b);
  }

  const ReductionPlan& plan_;
  const ReductionShape& shape_;
  GpuEntry entry_;
  llvm::IRBuilder<>& b_;
  IndexSpace space_;
  std::vector<std::unique_ptr<ValueEmitter>> emitters_;
  ReductionFinisher finisher_;
  std::int64_t widest_ = 1;  // bytes of an operand's or an accumulator's element
  std::int64_t widest_read_ = 1;

 private:
  const KernelGraph& graph_;
};

// The launches: a sweep by rows, or by columns, and one that combines the blocks' results in order.
Status write_gpu_row_sweep(GpuWriter& writer, const ReductionPlan& plan);
Status write_gpu_column_sweep(GpuWriter& writer, const ReductionPlan& plan);
Status write_gpu_combination(GpuWriter& writer, const ReductionPlan& plan);

}  // namespace plimsoll::jit
