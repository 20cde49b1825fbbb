// SPDX-License-Identifier: Apache-2.0
#include "jit/gpu/gpu_reductions.h"

#include <algorithm>

#include "jit/emit/elementwise.h"
#include "jit/reductions/reduction_plan.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

using llvm::Value;
using Values = std::vector<Value*>;

constexpr std::size_t kShortSweep = 8;

// Accumulators: slot i of every component, and whether it holds something.
class Slots {
 public:
  Slots(GpuEntry& entry, const ReductionPlan& plan, std::int64_t count, int width)
      : b_(entry.builder()), plan_(plan) {
    llvm::IRBuilder<> start(entry.function().entry_anchor);
    for (std::int64_t i = 0; i < count; ++i) {
      Values& components = values_.emplace_back();
      for (const ir::DType dtype : plan.accumulators) {
        components.push_back(start.CreateAlloca(memory_type(b_.getContext(), dtype, width)));
      }
      full_.push_back(start.CreateAlloca(b_.getInt1Ty()));
      start.CreateStore(b_.getFalse(), full_.back());
    }
  }

  std::size_t count() const { return values_.size(); }
  Value* is_full(std::size_t slot) { return b_.CreateLoad(b_.getInt1Ty(), full_[slot]); }
  Values load(std::size_t slot) {
    Values result;
    for (std::size_t c = 0; c < plan_.accumulators.size(); ++c) {
      auto* memory = llvm::cast<llvm::AllocaInst>(values_[slot][c]);
      result.push_back(to_register(b_, b_.CreateLoad(memory->getAllocatedType(), memory),
                                   plan_.accumulators[c]));
    }
    return result;
  }
  // What is there before the first element.
  void start(std::size_t slot, const Values& values) {
    for (std::size_t c = 0; c < values.size(); ++c) {
      b_.CreateStore(to_memory(b_, values[c], plan_.accumulators[c]), values_[slot][c]);
    }
  }
  void store(std::size_t slot, const Values& values) {
    start(slot, values);
    b_.CreateStore(b_.getTrue(), full_[slot]);
  }

 private:
  llvm::IRBuilder<>& b_;
  const ReductionPlan& plan_;
  std::vector<Values> values_;
  Values full_;
};

// What the two sweeps share.
class GpuSweep {
 public:
  GpuSweep(GpuWriter& writer, const ReductionPlan& plan)
      : plan_(plan),
        shape_(plan.shape),
        entry_(writer, kBlockThreads),
        b_(entry_.builder()),
        emitter_(*writer.graph, space_, b_, entry_.function(), 3),
        finisher_(plan, b_, entry_.function()) {
    if (entry_.index_type()->getBitWidth() == 32) {
      emitter_.use_narrow_indices();
      finisher_.emitter().use_narrow_indices();
    }
    emitter_.align_buffers(kGpuAlignment);
    finisher_.emitter().align_buffers(kGpuAlignment);
  }

 protected:
  Status finish(std::int64_t threads) {
    PLIMSOLL_RETURN_IF_ERROR(emitter_.status());
    PLIMSOLL_RETURN_IF_ERROR(finisher_.emitter().status());
    entry_.launch(threads);
    return ok_status();
  }

  // Every accumulator at its start: what the reducers say, else empty.
  void fill(Slots& slots) {
    Values initial;
    if (plan_.reducers.front().in_order) initial = finisher_.initial();
    for (std::size_t i = 0; i < slots.count(); ++i) {
      Values start;
      for (const Reducer& reducer : plan_.reducers) {
        for (int c = 0; c < reducer.components(); ++c) {
          const auto component = at(reducer.first + c);
          Value* value = llvm::Constant::getNullValue(
              register_type(b_.getContext(), plan_.accumulators[component], 1));
          if (reducer.in_order) value = initial[component];
          if (!reducer.identity.empty()) value = reducer.identity[at(c)];
          start.push_back(emitter_.widen(value));
        }
      }
      slots.start(i, start);
    }
  }

  // The elements of all reducers at the emitter's place; stores the swept roots.
  Values elements(const Index& index) {
    Values values;
    for (const Reducer& reducer : plan_.reducers) {
      for (int c = 0; c < reducer.components(); ++c) {
        const KernelNode node = plan_.graph.operand(*reducer.reduce, c);
        values.push_back(emitter_.widen(emit_convert(b_, emitter_.value(node, index), node.dtype(),
                                                     reducer.accumulators[at(c)])));
      }
    }
    Values stored;
    for (const int root : plan_.swept) {
      stored.push_back(emitter_.value(plan_.graph.roots()[at(root)], index));
    }
    for (std::size_t i = 0; i < stored.size(); ++i) {
      const KernelNode& node = plan_.graph.roots()[at(plan_.swept[i])];
      emitter_.store(entry_.function().output(plan_.swept[i]), space_.linearize(index, node.dims()),
                     stored[i], node.dtype());
    }
    return values;
  }

  void accumulate(Slots& slots, std::size_t slot, const Values& values) {
    const Values old = slots.load(slot);
    Values results;
    for (const Reducer& reducer : plan_.reducers) {
      const Values before = part(old, reducer), added = part(values, reducer);
      const Values sum = combine(emitter_, b_, reducer, before, added);
      for (std::size_t c = 0; c < sum.size(); ++c) {
        Value* value = emitter_.widen(sum[c]);
        if (!reducer.starts_full()) {
          value = b_.CreateSelect(slots.is_full(slot), value, added[c]);
        }
        results.push_back(value);
      }
    }
    slots.store(slot, results);
  }

  static Values part(const Values& all, const Reducer& reducer) {
    return Values(all.begin() + reducer.first, all.begin() + reducer.first + reducer.components());
  }

  // Results `kept` (of the emitter of the finisher's lanes) where nothing is cut, else into the
  // workspace, as [component][block][result].
  void give(const Values& totals, Value* kept, Value* block) {
    const Affine position = finisher_.space().add_loop(shape_.kept, 1);
    finisher_.emitter().open_lanes(emitter_.width(), emitter_.width());
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

  // Code for what is constant in the loops of deeper levels stands here.
  void open_level(int level) { emitter_.anchor(level, entry_.open_place()); }

  bool is_short() const { return plan_.graph.instructions().size() <= kShortSweep; }
  Value* least(Value* a, Value* b) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b); }

  const ReductionPlan& plan_;
  const ReductionShape& shape_;
  GpuEntry entry_;
  llvm::IRBuilder<>& b_;
  IndexSpace space_;
  ValueEmitter emitter_;
  ReductionFinisher finisher_;
};

// Rows. The lanes of reduction_shape.h are threads side by side, of a row of 256 elements or more
// two in each thread of a warp: thread t takes elements t, t + 32, t + 64, ... so that a warp reads
// 32 neighbours at a time. Lanes are folded by halves in the thread, then from register to
// register.
class GpuRowSweep final : public GpuSweep {
 public:
  GpuRowSweep(GpuWriter& writer, const ReductionPlan& plan)
      : GpuSweep(writer, plan), threads_(threads_of_row(shape_.lanes)) {}

  Status write() {
    const std::int64_t units = shape_.blocks() * shape_.kept;
    Value* thread = entry_.thread();
    Value* unit = thread;
    Value* lane = entry_.split(&unit, threads_);
    // Threads past the last unit stay for the exchange of registers, and take nothing.
    Value* exists = b_.CreateICmpULT(unit, entry_.number(units));
    unit = b_.CreateSelect(exists, unit, entry_.number(units - 1));
    Value* kept = unit;
    Value* block = entry_.split(&kept, shape_.blocks());
    Value* row_block = block;
    Value* minor_block = entry_.split(&row_block, shape_.minor_blocks);
    Value* first_row = b_.CreateMul(row_block, entry_.number(shape_.block_rows));
    Value* last_row = entry_.number(shape_.row_count());
    if (shape_.row_blocks > 1) {
      last_row = least(last_row, b_.CreateAdd(first_row, entry_.number(shape_.block_rows)));
    }
    Value* begin = b_.CreateMul(minor_block, entry_.number(shape_.block_minor));
    Value* end = entry_.number(shape_.minor);
    if (shape_.minor_blocks > 1) {
      end = least(end, b_.CreateAdd(begin, entry_.number(shape_.block_minor)));
    }
    Value* length = b_.CreateSub(end, begin);
    end = b_.CreateSelect(exists, end, begin);

    kept_ = space_.add_loop(shape_.kept, 1);
    row_ = space_.add_loop(shape_.row_count(), 2);
    minor_ = space_.add_loop(shape_.minor, 3);
    index_ =
        shape_.operand_index(space_, kept_, space_.add(space_.scale(row_, shape_.minor), minor_));
    const std::int64_t slots = shape_.lanes / threads_;
    Slots accumulators(entry_, plan_, slots, 1);
    emitter_.bind(kept_, kept);
    fill(accumulators);
    open_level(1);
    Loop rows = Loop::open(b_, first_row, last_row, 1);
    emitter_.bind(row_, rows.variable);
    open_level(2);
    write_row(accumulators, lane, begin, end);
    rows.close(b_);

    Values totals;
    Value* lane_number = b_.CreateIntCast(lane, b_.getInt32Ty(), false);
    Value* count = b_.CreateIntCast(length, b_.getInt32Ty(), false);
    for (const Reducer& reducer : plan_.reducers) {
      std::vector<Values> parts;
      for (std::size_t i = 0; i < accumulators.count(); ++i) {
        parts.push_back(part(accumulators.load(i), reducer));
      }
      for (Value* value :
           fold_lanes(entry_, emitter_, reducer, std::move(parts), threads_, lane_number, count)) {
        totals.push_back(value);
      }
    }
    // A result may be the buffer of an operand that other threads of the row have read.
    entry_.warp_barrier();
    Value* gives = b_.CreateAnd(exists, b_.CreateIsNull(lane));
    entry_.when(gives, [&] {
      emitter_.open_lanes(1, 1);
      give(totals, kept, block);
    });
    return finish(units * threads_);
  }

 private:
  void write_row(Slots& slots, Value* lane, Value* begin, Value* end) {
    const auto take = [&](Value* j, std::size_t slot) {
      emitter_.open_lanes(1, 1);
      emitter_.bind_lane(minor_, j);
      accumulate(slots, slot, elements(index_));
    };
    const auto lane_of = [&](std::size_t slot) {
      return b_.CreateAdd(lane, entry_.number(static_cast<std::int64_t>(slot) * threads_));
    };
    // Turns that every lane takes part in, several at a time, then one by one, then the rest.
    const auto turns = [&](Value* from, std::int64_t together) {
      Value* step = entry_.number(together * shape_.lanes);
      Value* count = b_.CreateUDiv(b_.CreateSub(end, from), step);
      Value* last = b_.CreateAdd(from, b_.CreateMul(count, step));
      Loop loop = Loop::open(b_, from, last, together * shape_.lanes);
      for (std::int64_t turn = 0; turn < together; ++turn) {
        Value* first = b_.CreateAdd(loop.variable, entry_.number(turn * shape_.lanes));
        for (std::size_t slot = 0; slot < slots.count(); ++slot) {
          take(b_.CreateAdd(first, lane_of(slot)), slot);
        }
      }
      loop.close(b_);
      return last;
    };
    Value* from = begin;
    if (is_short() && shape_.minor >= kTurnsTogether * shape_.lanes) {
      from = turns(from, kTurnsTogether);
    }
    if (shape_.minor >= shape_.lanes) from = turns(from, 1);
    if (shape_.minor % shape_.lanes == 0) return;
    for (std::size_t slot = 0; slot < slots.count(); ++slot) {
      Value* j = b_.CreateAdd(from, lane_of(slot));
      entry_.when(b_.CreateICmpSLT(j, end), [&] { take(j, slot); });
    }
  }

  const int threads_;
  Affine kept_, row_, minor_;
  Index index_;
};

// Columns: neighbouring threads take neighbouring columns, or 16 bytes of them each; the lanes of
// reduction_shape.h are rows, of which a thread takes all.
class GpuColumnSweep final : public GpuSweep {
 public:
  GpuColumnSweep(GpuWriter& writer, const ReductionPlan& plan) : GpuSweep(writer, plan) {
    std::int64_t widest = 1;
    for (const ir::Shape* input : writer.graph->inputs()) {
      widest = std::max<std::int64_t>(widest, ir::dtype_bytes(input->dtype()));
    }
    for (const ir::DType dtype : plan.accumulators) {
      widest = std::max<std::int64_t>(widest, ir::dtype_bytes(dtype));
    }
    width_ = kGpuAlignment / widest;
    while (width_ > 1 && (shape_.minor % width_ != 0 || !is_short() ||
                          shape_.blocks() * shape_.kept / width_ < kManyThreads)) {
      width_ /= 2;
    }
    width_ = std::max<std::int64_t>(width_, 1);
  }

  Status write() {
    const std::int64_t groups = shape_.minor / width_;
    const std::int64_t threads = shape_.blocks() * (shape_.kept / shape_.minor) * groups;
    Value* thread = entry_.thread();
    Value* exists =
        threads % kBlockThreads == 0 ? nullptr : b_.CreateICmpULT(thread, entry_.number(threads));
    entry_.when(exists, [&] { write_thread(thread, groups); });
    return finish(threads);
  }

 private:
  void write_thread(Value* thread, std::int64_t groups) {
    const int width = static_cast<int>(width_);
    Value* block = thread;
    Value* column = b_.CreateMul(entry_.split(&block, groups), entry_.number(width_));
    Value* outer = entry_.split(&block, shape_.kept / shape_.minor);
    const Affine outer_loop = space_.add_loop(shape_.kept / shape_.minor, 1);
    const Affine row_loop = space_.add_loop(shape_.reduced, 2);
    const Affine column_loop = space_.add_loop(shape_.minor, 3);
    const Index index = shape_.operand_index(
        space_, space_.add(space_.scale(outer_loop, shape_.minor), column_loop), row_loop);
    Value* first = b_.CreateMul(block, entry_.number(shape_.block_rows));
    Value* end = entry_.number(shape_.reduced);
    if (shape_.row_blocks > 1) {
      end = least(end, b_.CreateAdd(first, entry_.number(shape_.block_rows)));
    }
    emitter_.bind(outer_loop, outer);
    emitter_.open_lanes(width, width);
    finisher_.emitter().open_lanes(width, width);
    Slots slots(entry_, plan_, shape_.lanes, width);
    fill(slots);
    open_level(1);
    const auto take = [&](Value* row, std::size_t lane) {
      open_level(2);
      emitter_.forget(2);  // of another row
      emitter_.bind(row_loop, row);
      emitter_.open_lanes(width, width);
      emitter_.bind_lane(column_loop, column);
      accumulate(slots, lane, elements(index));
    };
    Value* lanes = entry_.number(shape_.lanes);
    Value* whole = b_.CreateMul(b_.CreateUDiv(b_.CreateSub(end, first), lanes), lanes);
    Value* last = b_.CreateAdd(first, whole);
    Loop rows = Loop::open(b_, first, last, shape_.lanes);
    for (std::size_t lane = 0; lane < slots.count(); ++lane) {
      take(b_.CreateAdd(rows.variable, entry_.number(static_cast<std::int64_t>(lane))), lane);
    }
    rows.close(b_);
    if (shape_.reduced % shape_.lanes != 0) {
      for (std::size_t lane = 0; lane + 1 < slots.count(); ++lane) {
        Value* row = b_.CreateAdd(last, entry_.number(static_cast<std::int64_t>(lane)));
        entry_.when(b_.CreateICmpSLT(row, end), [&] { take(row, lane); });
      }
    }
    emitter_.open_lanes(width, width);
    Values totals = slots.load(0);
    for (std::size_t lane = 1; lane < slots.count(); ++lane) {
      const Values next = slots.load(lane);
      Values sums;
      for (const Reducer& reducer : plan_.reducers) {
        const Values before = part(totals, reducer);
        const Values sum = combine(emitter_, b_, reducer, before, part(next, reducer));
        for (std::size_t c = 0; c < sum.size(); ++c) {
          sums.push_back(reducer.starts_full()
                             ? sum[c]
                             : b_.CreateSelect(slots.is_full(lane), sum[c], before[c]));
        }
      }
      totals = std::move(sums);
    }
    give(totals, b_.CreateAdd(b_.CreateMul(outer, entry_.number(shape_.minor)), column), block);
  }

  std::int64_t width_ = 1;
};

// Combines the blocks' results in order, a thread a result.
class GpuCombination final : public GpuSweep {
 public:
  using GpuSweep::GpuSweep;

  Status write() {
    Value* kept = entry_.thread();
    Value* exists = b_.CreateICmpULT(kept, entry_.number(shape_.kept));
    entry_.when(exists, [&] {
      emitter_.open_lanes(1, 1);
      const Affine position = finisher_.space().add_loop(shape_.kept, 1);
      finisher_.emitter().open_lanes(1, 1);
      finisher_.emitter().bind_lane(position, kept);
      Slots running(entry_, plan_, 1, 1);
      running.start(0, finisher_.initial());
      Value* wide = b_.CreateZExt(kept, b_.getInt64Ty());
      const auto number = [&](std::int64_t n) {
        return b_.getInt64(static_cast<std::uint64_t>(n));
      };
      // Several are read ahead: only combining waits for what was before.
      const std::int64_t ahead = shape_.blocks() >= kAhead ? kAhead : 1;
      const std::int64_t whole = shape_.blocks() / ahead * ahead;
      const auto take = [&](Value* block, std::int64_t count) {
        std::vector<Values> next(at(count));
        for (std::int64_t i = 0; i < count; ++i) {
          Value* place =
              b_.CreateAdd(b_.CreateMul(b_.CreateAdd(block, number(i)), number(shape_.kept)), wide);
          for (std::size_t c = 0; c < plan_.accumulators.size(); ++c) {
            const ir::DType dtype = plan_.accumulators[c];
            llvm::Type* element = memory_type(b_.getContext(), dtype, 1);
            Value* base =
                b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), entry_.function().workspace,
                                              static_cast<std::uint64_t>(plan_.partial_offset[c]));
            next[at(i)].push_back(to_register(
                b_, b_.CreateLoad(element, b_.CreateInBoundsGEP(element, base, place)), dtype));
          }
        }
        for (const Values& one : next) {
          running.start(0, finisher_.combine_all(running.load(0), one));
        }
      };
      Loop blocks = Loop::open(b_, number(0), number(whole), ahead);
      take(blocks.variable, ahead);
      blocks.close(b_);
      for (std::int64_t block = whole; block < shape_.blocks(); ++block) take(number(block), 1);
      finisher_.finish(position, running.load(0));
    });
    return finish(shape_.kept);
  }

 private:
  static constexpr std::int64_t kAhead = 8;
};

}  // namespace

std::vector<Value*> fold_lanes(GpuEntry& entry, ValueEmitter& emitter, const Reducer& reducer,
                               std::vector<std::vector<Value*>> slots, int threads, Value* lane,
                               Value* length) {
  llvm::IRBuilder<>& b = entry.builder();
  const auto joined = [&](const Values& low, const Values& high, int distance) {
    const Values sum = combine(emitter, b, reducer, low, high);
    if (reducer.starts_full()) return sum;
    Value* other = b.CreateAdd(lane, b.getInt32(static_cast<std::uint32_t>(distance)));
    Value* exists = b.CreateICmpSLT(other, length);
    Values kept;
    for (std::size_t c = 0; c < sum.size(); ++c) {
      kept.push_back(b.CreateSelect(exists, sum[c], low[c]));
    }
    return kept;
  };
  for (std::size_t half = slots.size() / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) {
      slots[i] = joined(slots[i], slots[i + half], static_cast<int>(i + half) * threads);
    }
  }
  Values total = slots[0];
  for (int half = threads / 2; half > 0; half /= 2) {
    Values above;
    for (Value* value : total) above.push_back(entry.from_lane_above(value, half, threads));
    total = joined(total, above, half);
  }
  return total;
}

Status write_gpu_reductions(GpuWriter& writer) {
  const ReductionPlan plan = make_reduction_plan(*writer.graph, *writer.code.context);
  writer.code.workspace_bytes = plan.workspace_bytes;
  if (plan.shape.kept == 0) return ok_status();
  if (plan.shape.reduced > 0) {
    PLIMSOLL_RETURN_IF_ERROR(plan.shape.rows ? GpuRowSweep(writer, plan).write()
                                             : GpuColumnSweep(writer, plan).write());
  }
  return plan.is_cut() ? GpuCombination(writer, plan).write() : ok_status();
}

}  // namespace plimsoll::jit
