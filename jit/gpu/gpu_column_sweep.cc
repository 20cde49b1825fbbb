// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "jit/emit/elementwise.h"
#include "jit/gpu/gpu_sweep.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

using llvm::Value;

// With fewer threads the lanes of a unit are threads, too.
constexpr std::int64_t kEnoughThreads = 1 << 17;
// Columns, or groups of them, that are threads side by side, where lanes are threads: a warp reads
// neighbours.
constexpr std::int64_t kMostAcross = 64;

// Columns: neighbouring threads take neighbouring columns, or 16 bytes of them each. A unit is a
// block of rows; its lanes (reduction_shape.h) are rows, every so many-th one. Where units make
// threads enough, one thread takes all lanes of its columns; else each lane is a thread's, which
// reads several of its rows together, and the lanes meet in shared memory.
class GpuColumnSweep final : public GpuSweep {
 public:
  GpuColumnSweep(GpuWriter& writer, const ReductionPlan& plan)
      : GpuSweep(writer, plan),
        outer_count_(shape_.kept / shape_.minor),
        units_(shape_.blocks() * outer_count_) {
    const bool has_rows = shape_.lanes > 1 &&
                          std::has_single_bit(static_cast<std::uint64_t>(shape_.lanes)) &&
                          shape_.reduced >= 4 * shape_.lanes;
    width_ = std::max<std::int64_t>(kGpuAlignment / widest_, 1);
    const std::int64_t lane_threads = has_rows ? shape_.lanes : 1;
    while (width_ > 1 && (shape_.minor % width_ != 0 || !is_short() ||
                          units_ * shape_.minor / width_ * lane_threads < kManyThreads)) {
      width_ /= 2;
    }
    groups_ = shape_.minor / width_;
    splits_ = has_rows && units_ * groups_ < kEnoughThreads;
  }

  Status write() {
    outer_ = space_.add_loop(outer_count_, 1);
    row_ = space_.add_loop(shape_.reduced, 2);
    column_ = space_.add_loop(shape_.minor, 3);
    index_ =
        shape_.operand_index(space_, space_.add(space_.scale(outer_, shape_.minor), column_), row_);
    return splits_ ? write_lanes() : write_units();
  }

 private:
  static constexpr std::size_t kShortSweep = 8;
  bool is_short() const { return plan_.graph.instructions().size() <= kShortSweep; }
  int width() const { return static_cast<int>(width_); }

  struct Rows {
    Value *first, *end;
  };
  Rows rows_of(Value* block) {
    Value* first = b_.CreateMul(block, entry_.number(shape_.block_rows));
    Value* end = entry_.number(shape_.reduced);
    if (shape_.row_blocks > 1) {
      end = least(end, b_.CreateAdd(first, entry_.number(shape_.block_rows)));
    }
    return {first, end};
  }

  void open_lanes() {
    for (const auto& emitter : emitters_) emitter->open_lanes(width(), width());
    finisher_.emitter().open_lanes(width(), width());
  }

  // The elements of `row`, by emitter `e`.
  GpuValues read(std::int64_t e, Value* row, Value* column) {
    emitter(e).forget(2);  // of another row
    emitter(e).bind(row_, row);
    emitter(e).open_lanes(width(), width());
    emitter(e).bind_lane(column_, column);
    return elements(emitter(e), index_);
  }

  // Rows `row_of(0)`, `row_of(1)`, ... are read, and then taken, the i-th one by slot `slot_of(i)`.
  template <typename RowOf, typename SlotOf>
  void take(GpuSlots& slots, std::int64_t count, Value* column, RowOf row_of, SlotOf slot_of) {
    GpuValues rows;
    for (std::int64_t i = 0; i < count; ++i) rows.push_back(row_of(i));
    open_level(2);
    std::vector<GpuValues> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(read(i, rows[at(i)], column));
    for (std::int64_t i = 0; i < count; ++i) store_swept(emitter(i), index_, values[at(i)]);
    for (std::int64_t i = 0; i < count; ++i) accumulate(slots, slot_of(i), values[at(i)]);
  }

  Value* result_of(Value* outer, Value* column) {
    return b_.CreateAdd(b_.CreateMul(outer, entry_.number(shape_.minor)), column);
  }

  // A thread takes a unit's columns.

  Status write_units() {
    const std::int64_t threads = units_ * groups_;
    make_emitters(shape_.lanes);
    Value* thread = entry_.thread();
    Value* exists =
        threads % kBlockThreads == 0 ? nullptr : b_.CreateICmpULT(thread, entry_.number(threads));
    entry_.when(exists, [&] { write_unit(thread); });
    return finish(threads);
  }

  void write_unit(Value* thread) {
    Value* block = thread;
    Value* column = b_.CreateMul(entry_.split(&block, groups_), entry_.number(width_));
    Value* outer = entry_.split(&block, outer_count_);
    const Rows block_rows = rows_of(block);
    Value *first = block_rows.first, *end = block_rows.end;
    bind(outer_, outer);
    open_lanes();
    GpuSlots slots(entry_, plan_, shape_.lanes, width());
    fill(slots);
    open_level(1);
    Value* lanes = entry_.number(shape_.lanes);
    Value* whole = b_.CreateMul(b_.CreateUDiv(b_.CreateSub(end, first), lanes), lanes);
    Value* last = b_.CreateAdd(first, whole);
    Loop rows = Loop::open(b_, first, last, shape_.lanes);
    take(
        slots, shape_.lanes, column,
        [&](std::int64_t i) { return b_.CreateAdd(rows.variable, entry_.number(i)); },
        [](std::int64_t i) { return at(i); });
    rows.close(b_);
    if (shape_.reduced % shape_.lanes != 0) {
      for (std::int64_t lane = 0; lane + 1 < shape_.lanes; ++lane) {
        Value* row = b_.CreateAdd(last, entry_.number(lane));
        entry_.when(b_.CreateICmpSLT(row, end), [&] {
          take(
              slots, 1, column, [&](std::int64_t) { return row; },
              [&](std::int64_t) { return at(lane); });
        });
      }
    }
    open_lanes();
    GpuValues totals = slots.load(0);
    for (std::size_t lane = 1; lane < slots.count(); ++lane) {
      totals = joined(totals, slots.load(lane), slots.is_full(lane));
    }
    give(totals, result_of(outer, column), block);
  }

  // A thread takes a lane of a unit's columns.

  Status write_lanes() {
    const std::int64_t across = std::min<std::int64_t>(
        kMostAcross, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(groups_))));
    const std::int64_t in_block = kBlockThreads / (across * shape_.lanes);  // units
    const std::int64_t pieces = divide_up(groups_, across);
    const std::int64_t together =
        choose_together(width_, std::max<std::int64_t>(shape_.block_rows / shape_.lanes, 1));
    make_emitters(together);

    Value* unit = b_.CreateIntCast(entry_.thread_in_block(), entry_.index_type(), false);
    Value* group = entry_.split(&unit, across);
    Value* lane = entry_.split(&unit, shape_.lanes);
    Value* rest = entry_.block_in_grid();
    group = b_.CreateAdd(group, b_.CreateMul(entry_.split(&rest, pieces), entry_.number(across)));
    unit = b_.CreateAdd(unit, b_.CreateMul(rest, entry_.number(in_block)));
    // Threads past the last column or unit take nothing, and stay for the barrier.
    Value* exists = b_.CreateAnd(b_.CreateICmpULT(group, entry_.number(groups_)),
                                 b_.CreateICmpULT(unit, entry_.number(units_)));
    group = b_.CreateSelect(exists, group, entry_.number(0));
    unit = b_.CreateSelect(exists, unit, entry_.number(0));
    Value* column = b_.CreateMul(group, entry_.number(width_));
    Value* block = unit;
    Value* outer = entry_.split(&block, outer_count_);
    const Rows block_rows = rows_of(block);
    Value *first = block_rows.first, *end = block_rows.end;
    // Rows first + lane, first + lane + lanes, ...: so many.
    Value* begin = b_.CreateAdd(first, lane);
    Value* length = b_.CreateAdd(b_.CreateSub(end, begin), entry_.number(shape_.lanes - 1));
    length = b_.CreateSelect(b_.CreateICmpSLT(begin, end), length, entry_.number(0));
    length = b_.CreateSelect(exists, length, entry_.number(0));
    Value* count = b_.CreateUDiv(length, entry_.number(shape_.lanes));

    bind(outer_, outer);
    open_lanes();
    GpuSlots slots(entry_, plan_, 1, width());
    fill(slots);
    open_level(1);
    Value* whole =
        b_.CreateMul(b_.CreateUDiv(count, entry_.number(together)), entry_.number(together));
    const auto turns = [&](Value* from, Value* to, std::int64_t step) {
      Loop loop = Loop::open(b_, from, to, step);
      take(
          slots, step, column,
          [&](std::int64_t i) {
            Value* turn = b_.CreateAdd(loop.variable, entry_.number(i));
            return b_.CreateAdd(begin, b_.CreateMul(turn, entry_.number(shape_.lanes)));
          },
          [](std::int64_t) { return std::size_t{0}; });
      loop.close(b_);
    };
    turns(entry_.number(0), whole, together);
    if (together > 1) turns(whole, count, 1);

    open_lanes();
    const GpuValues own = slots.load(0);
    GpuValues shared;
    for (const ir::DType dtype : plan_.accumulators) {
      shared.push_back(entry_.share(memory_type(b_.getContext(), dtype, width()), kBlockThreads));
    }
    Value* thread = b_.CreateIntCast(entry_.thread_in_block(), entry_.index_type(), false);
    const auto place = [&](std::size_t c, Value* of) {
      return b_.CreateInBoundsGEP(memory_type(b_.getContext(), plan_.accumulators[c], width()),
                                  shared[c], of);
    };
    for (std::size_t c = 0; c < own.size(); ++c) {
      b_.CreateStore(to_memory(b_, own[c], plan_.accumulators[c]), place(c, thread));
    }
    entry_.barrier();
    entry_.when(b_.CreateAnd(exists, b_.CreateIsNull(lane)), [&] {
      GpuValues totals = own;
      for (std::int64_t i = 1; i < shape_.lanes; ++i) {
        Value* other = b_.CreateAdd(thread, entry_.number(i * across));
        GpuValues next;
        for (std::size_t c = 0; c < own.size(); ++c) {
          const ir::DType dtype = plan_.accumulators[c];
          next.push_back(to_register(
              b_, b_.CreateLoad(memory_type(b_.getContext(), dtype, width()), place(c, other)),
              dtype));
        }
        Value* is_full = b_.CreateICmpSLT(b_.CreateAdd(first, entry_.number(i)), end);
        totals = joined(totals, next, is_full);
      }
      give(totals, result_of(outer, column), block);
    });
    return finish(divide_up(units_, in_block) * pieces * kBlockThreads);
  }

  const std::int64_t outer_count_, units_;
  std::int64_t width_ = 1;
  std::int64_t groups_ = 1;  // of `width_` columns
  bool splits_ = false;
  Affine outer_, row_, column_;
  Index index_;
};

}  // namespace

Status write_gpu_column_sweep(GpuWriter& writer, const ReductionPlan& plan) {
  return GpuColumnSweep(writer, plan).write();
}

}  // namespace plimsoll::jit
