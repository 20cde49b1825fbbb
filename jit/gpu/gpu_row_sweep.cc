// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "jit/gpu/gpu_reductions.h"
#include "jit/gpu/gpu_sweep.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

using llvm::Value;

// Threads that are left at least where each takes several short rows.
constexpr std::int64_t kThreadsOfShortRows = 1 << 17;

// Rows. The lanes of reduction_shape.h are threads side by side, of a row of 256 elements or more
// two in each thread of a warp: thread t takes elements t, t + 32, t + 64, ... so that a warp reads
// 32 neighbours at a time. Lanes are folded by halves in the thread, then from register to
// register.
//
// A unit is a block of a result: `threads_` threads side by side. Rows of a few elements a thread
// are too little to wait for: each thread takes several units, a block of threads apart, and reads
// all of their elements first.
class GpuRowSweep final : public GpuSweep {
 public:
  GpuRowSweep(GpuWriter& writer, const ReductionPlan& plan)
      : GpuSweep(writer, plan),
        threads_(threads_of_row(shape_.lanes)),
        slots_(shape_.lanes / threads_),
        units_(shape_.blocks() * shape_.kept) {
    const bool is_one_row = shape_.row_count() == 1 && shape_.minor_blocks == 1;
    if (is_one_row && shape_.minor % shape_.lanes == 0 && plan.swept.empty()) {
      const std::int64_t turns = shape_.minor / shape_.lanes;
      const std::int64_t together = choose_together(slots_ * turns, 8);
      if (choose_together(slots_, 16) >= turns && together > 1) {
        units_of_thread_ = together;
        while (units_of_thread_ > 1 && units_ * threads_ / units_of_thread_ < kThreadsOfShortRows) {
          units_of_thread_ /= 2;
        }
      }
    }
  }

  Status write() {
    kept_ = space_.add_loop(shape_.kept, 1);
    row_ = space_.add_loop(shape_.row_count(), 2);
    minor_ = space_.add_loop(shape_.minor, 3);
    index_ =
        shape_.operand_index(space_, kept_, space_.add(space_.scale(row_, shape_.minor), minor_));
    return units_of_thread_ > 1 ? write_short_rows() : write_long_rows();
  }

 private:
  // Of accumulators in every thread of a unit, the totals in its first one.
  GpuValues folded(GpuSlots& slots, Value* lane, Value* length) {
    GpuValues totals;
    Value* lane_number = b_.CreateIntCast(lane, b_.getInt32Ty(), false);
    Value* count = b_.CreateIntCast(length, b_.getInt32Ty(), false);
    for (const Reducer& reducer : plan_.reducers) {
      std::vector<GpuValues> parts;
      for (std::size_t i = 0; i < slots.count(); ++i) {
        parts.push_back(part(slots.load(i), reducer));
      }
      for (Value* value :
           fold_lanes(entry_, emitter(), reducer, std::move(parts), threads_, lane_number, count)) {
        totals.push_back(value);
      }
    }
    return totals;
  }

  Status write_long_rows() {
    Value* thread = entry_.thread();
    Value* unit = thread;
    Value* lane = entry_.split(&unit, threads_);
    // Threads past the last unit stay for the exchange of registers, and take nothing.
    Value* exists = b_.CreateICmpULT(unit, entry_.number(units_));
    unit = b_.CreateSelect(exists, unit, entry_.number(units_ - 1));
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

    const std::int64_t together =
        choose_together(slots_, std::max<std::int64_t>(shape_.block_minor / shape_.lanes, 1));
    make_emitters(slots_ * together);
    GpuSlots accumulators(entry_, plan_, slots_, 1);
    bind(kept_, kept);
    fill(accumulators);
    open_level(1);
    Loop rows = Loop::open(b_, first_row, last_row, 1);
    bind(row_, rows.variable);
    open_level(2);
    write_row(accumulators, together, lane, begin, end);
    rows.close(b_);

    const GpuValues totals = folded(accumulators, lane, length);
    // A result may be the buffer of an operand that other threads of the row have read.
    entry_.warp_barrier();
    Value* gives = b_.CreateAnd(exists, b_.CreateIsNull(lane));
    entry_.when(gives, [&] {
      emitter().open_lanes(1, 1);
      give(totals, kept, block);
    });
    return finish(units_ * threads_);
  }

  Value* lane_of(Value* lane, std::int64_t slot) {
    return b_.CreateAdd(lane, entry_.number(slot * threads_));
  }

  // The element at `j` of the row, by emitter `e`.
  GpuValues read(std::int64_t e, Value* j) {
    emitter(e).open_lanes(1, 1);
    emitter(e).bind_lane(minor_, j);
    return elements(emitter(e), index_);
  }

  void write_row(GpuSlots& slots, std::int64_t together, Value* lane, Value* begin, Value* end) {
    // Turns that every lane takes part in, several at a time, then one by one, then the rest.
    const auto turns = [&](Value* from, std::int64_t count) {
      Value* step = entry_.number(count * shape_.lanes);
      Value* steps = b_.CreateUDiv(b_.CreateSub(end, from), step);
      Value* last = b_.CreateAdd(from, b_.CreateMul(steps, step));
      Loop loop = Loop::open(b_, from, last, count * shape_.lanes);
      std::vector<GpuValues> values;
      for (std::int64_t i = 0; i < count * slots_; ++i) {
        Value* first = b_.CreateAdd(loop.variable, entry_.number(i / slots_ * shape_.lanes));
        values.push_back(read(i, b_.CreateAdd(first, lane_of(lane, i % slots_))));
      }
      for (std::int64_t i = 0; i < count * slots_; ++i) {
        store_swept(emitter(i), index_, values[at(i)]);
      }
      for (std::int64_t i = 0; i < count * slots_; ++i) {
        accumulate(slots, at(i % slots_), values[at(i)]);
      }
      loop.close(b_);
      return last;
    };
    Value* from = begin;
    if (together > 1 && shape_.minor >= together * shape_.lanes) from = turns(from, together);
    if (shape_.minor >= shape_.lanes && (together == 1 || !is_whole(together))) {
      from = turns(from, 1);
    }
    if (shape_.minor % shape_.lanes == 0) return;
    for (std::int64_t slot = 0; slot < slots_; ++slot) {
      Value* j = b_.CreateAdd(from, lane_of(lane, slot));
      entry_.when(b_.CreateICmpSLT(j, end), [&] {
        const GpuValues values = read(slot, j);
        store_swept(emitter(slot), index_, values);
        accumulate(slots, at(slot), values);
      });
    }
  }

  // Nothing is left behind steps of so many turns.
  bool is_whole(std::int64_t together) const {
    const std::int64_t step = together * shape_.lanes;
    return shape_.minor % step == 0 && (shape_.minor_blocks == 1 || shape_.block_minor % step == 0);
  }

  Status write_short_rows() {
    const std::int64_t turns = shape_.minor / shape_.lanes;
    const std::int64_t of_unit = turns * slots_;
    const std::int64_t in_block = kBlockThreads / threads_;  // units side by side
    make_emitters(of_unit * units_of_thread_);
    Value* own = b_.CreateIntCast(entry_.thread_in_block(), entry_.index_type(), false);
    Value* lane = entry_.split(&own, threads_);
    Value* first = b_.CreateAdd(
        b_.CreateMul(entry_.block_in_grid(), entry_.number(in_block * units_of_thread_)), own);
    // What is past the last unit is the last one once more, and is given by nobody.
    GpuValues units, present;
    for (std::int64_t u = 0; u < units_of_thread_; ++u) {
      Value* unit = b_.CreateAdd(first, entry_.number(u * in_block));
      present.push_back(b_.CreateICmpULT(unit, entry_.number(units_)));
      units.push_back(b_.CreateSelect(present.back(), unit, entry_.number(units_ - 1)));
      for (std::int64_t i = 0; i < of_unit; ++i) {
        emitter(u * of_unit + i).bind(kept_, units.back());
        emitter(u * of_unit + i).bind(row_, entry_.number(0));
      }
    }
    open_level(1);
    open_level(2);
    std::vector<GpuValues> values;
    for (std::int64_t i = 0; i < of_unit * units_of_thread_; ++i) {
      const std::int64_t turn = i % of_unit / slots_, slot = i % slots_;
      values.push_back(
          read(i, b_.CreateAdd(lane_of(lane, slot), entry_.number(turn * shape_.lanes))));
    }
    std::vector<GpuValues> totals;
    for (std::int64_t u = 0; u < units_of_thread_; ++u) {
      GpuSlots accumulators(entry_, plan_, slots_, 1);
      fill(accumulators);
      for (std::int64_t i = 0; i < of_unit; ++i) {
        accumulate(accumulators, at(i % slots_), values[at(u * of_unit + i)]);
      }
      totals.push_back(folded(accumulators, lane, entry_.number(shape_.minor)));
    }
    entry_.warp_barrier();
    for (std::int64_t u = 0; u < units_of_thread_; ++u) {
      entry_.when(b_.CreateAnd(present[at(u)], b_.CreateIsNull(lane)), [&] {
        emitter().open_lanes(1, 1);
        give(totals[at(u)], units[at(u)], entry_.number(0));
      });
    }
    return finish(divide_up(units_, in_block * units_of_thread_) * kBlockThreads);
  }

  const int threads_;
  const std::int64_t slots_;  // lanes of a thread
  const std::int64_t units_;
  std::int64_t units_of_thread_ = 1;
  Affine kept_, row_, minor_;
  Index index_;
};

}  // namespace

Status write_gpu_row_sweep(GpuWriter& writer, const ReductionPlan& plan) {
  return GpuRowSweep(writer, plan).write();
}

}  // namespace plimsoll::jit
