// SPDX-License-Identifier: Apache-2.0
#include "jit/gpu/gpu_sweep.h"

#include <algorithm>
#include <bit>

#include "jit/emit/elementwise.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {

using llvm::Value;

GpuSlots::GpuSlots(GpuEntry& entry, const ReductionPlan& plan, std::int64_t count, int width)
    : b_(entry.builder()), plan_(plan) {
  llvm::IRBuilder<> start(entry.function().entry_anchor);
  for (std::int64_t i = 0; i < count; ++i) {
    GpuValues& components = values_.emplace_back();
    for (const ir::DType dtype : plan.accumulators) {
      components.push_back(start.CreateAlloca(memory_type(b_.getContext(), dtype, width)));
    }
    full_.push_back(start.CreateAlloca(b_.getInt1Ty()));
    start.CreateStore(b_.getFalse(), full_.back());
  }
}

GpuValues GpuSlots::load(std::size_t slot) {
  GpuValues result;
  for (std::size_t c = 0; c < plan_.accumulators.size(); ++c) {
    auto* memory = llvm::cast<llvm::AllocaInst>(values_[slot][c]);
    result.push_back(
        to_register(b_, b_.CreateLoad(memory->getAllocatedType(), memory), plan_.accumulators[c]));
  }
  return result;
}

void GpuSlots::start(std::size_t slot, const GpuValues& values) {
  for (std::size_t c = 0; c < values.size(); ++c) {
    b_.CreateStore(to_memory(b_, values[c], plan_.accumulators[c]), values_[slot][c]);
  }
}

void GpuSlots::store(std::size_t slot, const GpuValues& values) {
  start(slot, values);
  b_.CreateStore(b_.getTrue(), full_[slot]);
}

GpuSweep::GpuSweep(GpuWriter& writer, const ReductionPlan& plan)
    : plan_(plan),
      shape_(plan.shape),
      entry_(writer, kBlockThreads),
      b_(entry_.builder()),
      finisher_(plan, b_, entry_.function()),
      graph_(*writer.graph) {
  if (entry_.index_type()->getBitWidth() == 32) finisher_.emitter().use_narrow_indices();
  finisher_.emitter().align_buffers(kGpuAlignment);
  for (const ir::Shape* input : graph_.inputs()) {
    widest_read_ = std::max<std::int64_t>(widest_read_, ir::dtype_bytes(input->dtype()));
  }
  widest_ = widest_read_;
  for (const ir::DType dtype : plan.accumulators) {
    widest_ = std::max<std::int64_t>(widest_, ir::dtype_bytes(dtype));
  }
  make_emitters(1);
}

Status GpuSweep::finish(std::int64_t threads) {
  for (const auto& emitter : emitters_) PLIMSOLL_RETURN_IF_ERROR(emitter->status());
  PLIMSOLL_RETURN_IF_ERROR(finisher_.emitter().status());
  entry_.launch(threads);
  return ok_status();
}

void GpuSweep::make_emitters(std::int64_t count) {
  while (static_cast<std::int64_t>(emitters_.size()) < count) {
    auto made = std::make_unique<ValueEmitter>(graph_, space_, b_, entry_.function(), 3);
    if (entry_.index_type()->getBitWidth() == 32) made->use_narrow_indices();
    made->align_buffers(kGpuAlignment);
    emitters_.push_back(std::move(made));
  }
}

void GpuSweep::bind(const Affine& loop, Value* value) {
  for (const auto& emitter : emitters_) emitter->bind(loop, value);
}

void GpuSweep::open_level(int level) {
  llvm::Instruction* const place = entry_.open_place();
  for (const auto& emitter : emitters_) emitter->anchor(level, place);
}

std::int64_t GpuSweep::choose_together(std::int64_t width, std::int64_t most) const {
  const auto instructions = static_cast<std::int64_t>(plan_.graph.instructions().size());
  const std::int64_t count =
      std::min({kBytesAhead / (width * widest_read_),
                kMostUnrolled / std::max<std::int64_t>(instructions, 1), most});
  return static_cast<std::int64_t>(
      std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(count, 1))));
}

void GpuSweep::fill(GpuSlots& slots) {
  GpuValues initial;
  if (plan_.reducers.front().in_order) initial = finisher_.initial();
  for (std::size_t i = 0; i < slots.count(); ++i) {
    GpuValues start;
    for (const Reducer& reducer : plan_.reducers) {
      for (int c = 0; c < reducer.components(); ++c) {
        const auto component = at(reducer.first + c);
        Value* value = llvm::Constant::getNullValue(
            register_type(b_.getContext(), plan_.accumulators[component], 1));
        if (reducer.in_order) value = initial[component];
        if (!reducer.identity.empty()) value = reducer.identity[at(c)];
        start.push_back(emitter().widen(value));
      }
    }
    slots.start(i, start);
  }
}

GpuValues GpuSweep::elements(ValueEmitter& emitter, const Index& index) {
  GpuValues values;
  for (const Reducer& reducer : plan_.reducers) {
    for (int c = 0; c < reducer.components(); ++c) {
      const KernelNode node = plan_.graph.operand(*reducer.reduce, c);
      values.push_back(emitter.widen(
          emit_convert(b_, emitter.value(node, index), node.dtype(), reducer.accumulators[at(c)])));
    }
  }
  for (const int root : plan_.swept) {
    values.push_back(emitter.value(plan_.graph.roots()[at(root)], index));
  }
  return values;
}

void GpuSweep::store_swept(ValueEmitter& emitter, const Index& index, const GpuValues& elements) {
  const std::size_t first = plan_.accumulators.size();
  for (std::size_t i = 0; i < plan_.swept.size(); ++i) {
    const KernelNode& node = plan_.graph.roots()[at(plan_.swept[i])];
    emitter.store(entry_.function().output(plan_.swept[i]), space_.linearize(index, node.dims()),
                  elements[first + i], node.dtype());
  }
}

void GpuSweep::accumulate(GpuSlots& slots, std::size_t slot, const GpuValues& elements) {
  const GpuValues old = slots.load(slot);
  GpuValues results;
  for (const Reducer& reducer : plan_.reducers) {
    const GpuValues before = part(old, reducer), added = part(elements, reducer);
    const GpuValues sum = combine(emitter(), b_, reducer, before, added);
    for (std::size_t c = 0; c < sum.size(); ++c) {
      Value* value = emitter().widen(sum[c]);
      if (!reducer.starts_full()) value = b_.CreateSelect(slots.is_full(slot), value, added[c]);
      results.push_back(value);
    }
  }
  slots.store(slot, results);
}

GpuValues GpuSweep::joined(const GpuValues& total, const GpuValues& next, Value* exists) {
  GpuValues sums;
  for (const Reducer& reducer : plan_.reducers) {
    const GpuValues before = part(total, reducer);
    const GpuValues sum = combine(emitter(), b_, reducer, before, part(next, reducer));
    for (std::size_t c = 0; c < sum.size(); ++c) {
      const bool is_always = reducer.starts_full() || exists == nullptr;
      sums.push_back(is_always ? sum[c] : b_.CreateSelect(exists, sum[c], before[c]));
    }
  }
  return sums;
}

void GpuSweep::give(const GpuValues& totals, Value* kept, Value* block) {
  const Affine position = finisher_.space().add_loop(shape_.kept, 1);
  finisher_.emitter().open_lanes(emitter().width(), emitter().width());
  finisher_.emitter().bind_lane(position, kept);
  if (!plan_.is_cut()) {
    finisher_.finish(position, finisher_.with_initial(totals));
    return;
  }
  // Wider than positions: blocks times results may be many.
  Value* row = b_.CreateMul(b_.CreateZExt(block, b_.getInt64Ty()),
                            b_.getInt64(static_cast<std::uint64_t>(shape_.kept)));
  for (std::size_t c = 0; c < totals.size(); ++c) {
    Value* base =
        b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), entry_.function().workspace,
                                      static_cast<std::uint64_t>(plan_.partial_offset[c]));
    llvm::Type* element = memory_type(b_.getContext(), plan_.accumulators[c], 1);
    Value* address = b_.CreateInBoundsGEP(element, b_.CreateInBoundsGEP(element, base, row),
                                          b_.CreateZExt(kept, b_.getInt64Ty()));
    const auto alignment =
        llvm::Align(static_cast<std::uint64_t>(ir::dtype_bytes(plan_.accumulators[c])));
    b_.CreateAlignedStore(to_memory(b_, totals[c], plan_.accumulators[c]), address, alignment);
  }
}

}  // namespace plimsoll::jit
