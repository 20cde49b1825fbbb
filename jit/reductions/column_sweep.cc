// SPDX-License-Identifier: Apache-2.0
// The sweep where the minor group of dimensions is kept.
#include <algorithm>
#include <bit>

#include "jit/emit/elementwise.h"
#include "jit/reductions/sweep_writer.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

constexpr std::int64_t kColumnWidth = 16;
// Accumulators of a unit stay in the first-level cache beside what is read.
constexpr std::int64_t kAccumulatorBytes = 16 << 10;
// Units are made narrower than that, but not below kFewColumns, until there are kManyUnits.
constexpr std::int64_t kFewColumns = 128;
constexpr std::int64_t kManyUnits = 16;
// So many rows are taken at a time, with the accumulators of a column in registers (fetched and put
// back for every row, they take several times as long as the row), but no more than the lanes where
// the code for one is long. Wide rows that are stored, too, are not: one long run is what memory is
// fastest with.
constexpr std::int64_t kWideRow = 512, kWideRows = 16, kNarrowRows = 8;
constexpr std::size_t kShortCode = 8;

// Summing columns of a row-major array: the vectors lie along the row, each lane another result, so
// that there is nothing to fold within a vector. Lane l of the *reduction* takes rows l, l + lanes,
// ...: there are `lanes` accumulators per column, in memory, and a unit takes as many columns
// (`chunk_`) as have room in the first-level cache for all of them.
//
// Example: 4,096 rows of 300 columns, 4 lanes, f32: 16 bytes of accumulators a column, so that a
// chunk may take the whole row. Rows 0..3 go to the accumulators 0..3, rows 4..7 to the same again.
// Taken one row at a time, a column's accumulator is loaded and stored for every row; taken 8 rows
// at a time (`together_`), it is loaded once, adds rows l and l + 4, and is stored once. At the end
// the 4 accumulators are combined in order, 0 + 1 + 2 + 3.
class ColumnSweep final : public SweepWriter {
 public:
  ColumnSweep(const ReductionPlan& plan, const KernelTarget& target, llvm::Module& module,
              const std::string& name)
      : SweepWriter(plan, target, module, name) {
    width_ = static_cast<int>(std::bit_ceil(
        static_cast<std::uint64_t>(std::clamp<std::int64_t>(shape_.minor, 1, kColumnWidth))));
    choose_chunk();
    vectors_ = divide_up(chunk_, width_);
    make_slots(shape_.lanes * vectors_, false);
    const bool is_wide = chunk_ >= kWideRow;
    if (is_wide && !plan.swept.empty()) return;
    const std::int64_t most = is_wide ? kWideRows : kNarrowRows;
    together_ = shape_.lanes;
    while (2 * together_ <= most && plan.graph.instructions().size() <= kShortCode &&
           2 * together_ <= shape_.reduced && shape_.block_rows % (2 * together_) == 0) {
      together_ *= 2;
    }
  }

  std::int64_t units() const override {
    return shape_.blocks() * (shape_.kept / shape_.minor) * chunks_;
  }
  std::int64_t elements_per_unit() const override {
    return std::min(shape_.block_rows, shape_.reduced) * chunk_;
  }

 private:
  // Narrow chunks give more units to share out to threads, wide ones longer runs of memory: from
  // the widest that the cache allows, halved until there are kManyUnits.
  void choose_chunk() {
    std::int64_t bytes = 0;  // of the accumulators of a column
    for (const ir::DType dtype : plan_.accumulators) bytes += ir::dtype_bytes(dtype);
    bytes *= shape_.lanes;
    const std::int64_t most =
        std::max(kFewColumns, kAccumulatorBytes / bytes / kColumnWidth * kColumnWidth);
    chunk_ = std::min(shape_.minor, most);
    const std::int64_t others = shape_.blocks() * (shape_.kept / shape_.minor);
    while (chunk_ >= 2 * kFewColumns && others * divide_up(shape_.minor, chunk_) < kManyUnits) {
      chunk_ = divide_up(chunk_ / 2, kColumnWidth) * kColumnWidth;
    }
    chunks_ = divide_up(shape_.minor, chunk_);
  }

  void write_unit(llvm::Value* unit) override {
    llvm::Value* chunk = split(&unit, chunks_);
    llvm::Value* block = split(&unit, shape_.blocks());
    llvm::Value* first_row = b_.CreateMul(block, number(shape_.block_rows));
    llvm::Value* last_row = number(shape_.reduced);
    if (shape_.blocks() > 1) {
      last_row = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, last_row,
                                          b_.CreateAdd(first_row, number(shape_.block_rows)));
    }
    llvm::Value* begin = b_.CreateMul(chunk, number(chunk_));
    const Affine major = space_.add_loop(shape_.kept / shape_.minor, 1);
    lane_ = space_.add_loop(shape_.minor, 3);
    kept_ = space_.add(space_.scale(major, shape_.minor), lane_);
    emitter_.bind(major, unit);
    fill_slots();
    open_level(1);
    if (together_ > 1) write_rows_together(begin, first_row, last_row);
    write_other_rows(begin, first_row, last_row);
    llvm::Value* count = b_.CreateSub(last_row, first_row);
    for_columns(begin, [&](llvm::Value* c, int active) {
      finish_columns(unit, block, c, column_slot(c, begin), count, active);
    });
  }

  // `together_` rows at a time, whose lanes are known.
  void write_rows_together(llvm::Value* begin, llvm::Value* first_row, llvm::Value* last_row) {
    const std::int64_t groups = shape_.reduced / together_;
    const Affine group = space_.add_loop(groups, 2);
    llvm::Value* first = b_.CreateUDiv(first_row, number(together_));
    Loop loop = Loop::open(b_, first, b_.CreateUDiv(last_row, number(together_)), 1);
    emitter_.bind(group, loop.variable);
    open_level(2);
    std::vector<Index> indices;
    for (std::int64_t r = 0; r < together_; ++r) {
      const Affine row = space_.add(space_.scale(group, together_), r);
      indices.push_back(shape_.operand_index(space_, kept_, row));
    }
    if (is_streamed()) {
      emitter_.prefetch(group, divide_up(kAheadBytes / 4, together_ * chunk_));
    }
    llvm::Value* is_first_group = b_.CreateICmpEQ(loop.variable, first);
    for_columns(begin, [&](llvm::Value* c, int active) {
      emitter_.open_lanes(width_, active);
      emitter_.bind_lane(lane_, c);
      llvm::Value* column = column_slot(c, begin);
      std::vector<Values> lanes;
      for (std::int64_t l = 0; l < shape_.lanes; ++l) {
        lanes.push_back(load_slots(b_.CreateAdd(column, number(l * vectors_))));
      }
      for (std::int64_t r = 0; r < together_; ++r) {
        Values& lane = lanes[at(r % shape_.lanes)];
        llvm::Value* is_first = r < shape_.lanes ? is_first_group : b_.getFalse();
        const Values values = sweep(indices[at(r)]);
        lane = accumulated(lane, values, is_first);
      }
      for (std::int64_t l = 0; l < shape_.lanes; ++l) {
        store_slots(b_.CreateAdd(column, number(l * vectors_)), lanes[at(l)]);
      }
    });
    loop.close(b_);
    emitter_.prefetch({}, 0);
  }

  // What is left of the last block, or, where rows are not taken together, all of a block.
  void write_other_rows(llvm::Value* begin, llvm::Value* first_row, llvm::Value* last_row) {
    const std::int64_t base = shape_.reduced / together_ * together_;
    if (together_ > 1 && base == shape_.reduced) return;
    llvm::Value* first = together_ > 1 ? number(base) : first_row;
    const Affine row = space_.add_loop(shape_.reduced, 2);
    const Index index = shape_.operand_index(space_, kept_, row);
    if (is_streamed() && together_ == 1) {
      if (chunk_ == shape_.kept) {  // rows lie one behind the other
        emitter_.prefetch(lane_, kAheadBytes / 4);
      } else {
        emitter_.prefetch(row, divide_up(kAheadBytes / 4, chunk_));
      }
    }
    Loop loop = Loop::open(b_, first, last_row, 1);
    emitter_.bind(row, loop.variable);
    open_level(2);
    llvm::Value* offset = b_.CreateSub(loop.variable, first_row);
    llvm::Value* is_first = b_.CreateICmpULT(offset, number(shape_.lanes));
    llvm::Value* lane = b_.CreateMul(b_.CreateURem(offset, number(shape_.lanes)), number(vectors_));
    for_columns(begin, [&](llvm::Value* c, int active) {
      emitter_.open_lanes(width_, active);
      emitter_.bind_lane(lane_, c);
      const Values values = sweep(index);
      llvm::Value* i = b_.CreateAdd(lane, column_slot(c, begin));
      store_slots(i, accumulated(load_slots(i), values, is_first));
    });
    loop.close(b_);
    emitter_.prefetch({}, 0);
  }

  llvm::Value* column_slot(llvm::Value* c, llvm::Value* begin) {
    return b_.CreateUDiv(b_.CreateSub(c, begin), number(width_));
  }

  template <typename F>
  void for_columns(llvm::Value* begin, F f) {
    const std::int64_t whole = shape_.minor / width_ * width_;
    if (whole > 0) {
      llvm::Value* end = number(whole);
      if (chunks_ > 1) {
        end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end,
                                       b_.CreateAdd(begin, number(chunk_)));
      }
      Loop lanes = Loop::open(b_, begin, end, width_);
      f(lanes.variable, width_);
      lanes.close(b_);
    }
    const auto rest = static_cast<int>(shape_.minor - whole);
    if (rest == 0) return;
    llvm::Value* is_last =
        chunks_ > 1 ? b_.CreateICmpEQ(begin, number((chunks_ - 1) * chunk_)) : nullptr;
    when(is_last, [&] { f(number(whole), rest); });
  }

  void finish_columns(llvm::Value* major, llvm::Value* block, llvm::Value* c, llvm::Value* column,
                      llvm::Value* count, int active) {
    ValueEmitter& emitter = finisher_.emitter();
    IndexSpace& space = finisher_.space();
    if (final_major_.terms.empty() && final_lane_.terms.empty()) {
      final_major_ = space.add_loop(shape_.kept / shape_.minor, 1);
      final_lane_ = space.add_loop(shape_.minor, 1);
    }
    emitter.open_lanes(width_, active);
    emitter.bind(final_major_, major);
    emitter.bind_lane(final_lane_, c);
    Values totals;
    for (const Reducer& reducer : plan_.reducers) {
      Values sum;
      for (std::int64_t l = 0; l < shape_.lanes; ++l) {
        Values next;
        for (int part = 0; part < reducer.components(); ++part) {
          next.push_back(load_slot(static_cast<std::size_t>(reducer.first + part),
                                   b_.CreateAdd(column, number(l * vectors_))));
        }
        if (l == 0) {
          sum = std::move(next);
          continue;
        }
        Values added = combine(emitter, b_, reducer, sum, next);
        if (!reducer.starts_full()) {
          llvm::Value* exists = b_.CreateICmpSGT(count, number(l));
          for (std::size_t i = 0; i < added.size(); ++i) {
            added[i] = b_.CreateSelect(exists, added[i], sum[i]);
          }
        }
        sum = std::move(added);
      }
      totals.insert(totals.end(), sum.begin(), sum.end());
    }
    const Affine position = space.add(space.scale(final_major_, shape_.minor), final_lane_);
    if (!plan_.is_cut()) {
      finisher_.finish(position, finisher_.with_initial(totals));
      return;
    }
    for (std::size_t i = 0; i < totals.size(); ++i) {
      llvm::Type* element = memory_type(b_.getContext(), plan_.accumulators[i], 1);
      llvm::Value* row =
          b_.CreateInBoundsGEP(element, partials(i), b_.CreateMul(block, number(shape_.kept)));
      emitter.store(row, position, totals[i], plan_.accumulators[i]);
    }
  }

  std::int64_t chunk_ = 1, chunks_ = 1;
  std::int64_t vectors_ = 1;   // of a chunk
  std::int64_t together_ = 1;  // rows; 1 or a multiple of the lanes
  Affine lane_, kept_, final_major_, final_lane_;
};

}  // namespace

std::unique_ptr<SweepWriter> make_column_sweep(const ReductionPlan& plan,
                                               const KernelTarget& target, llvm::Module& module,
                                               const std::string& name) {
  return std::make_unique<ColumnSweep>(plan, target, module, name);
}

}  // namespace plimsoll::jit
