// SPDX-License-Identifier: Apache-2.0
// The sweep where the minor group of dimensions is reduced.
#include <algorithm>

#include "jit/emit/elementwise.h"
#include "jit/reductions/sweep_writer.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

constexpr std::int64_t kRowWidth = 16;

// Example: rows of 70 elements, 32 lanes, vectors of 16: two slots. Elements 0..15 go to slot 0,
// 16..31 to slot 1, 32..47 to slot 0 and so on; two whole turns take 64 elements, the last 6 are
// the first lanes of a vector of slot 0, the others of which stay as they are. Lane l has then
// taken elements l, l + 32, l + 64. The lanes are folded by halves: slot 0 takes in slot 1, lane i
// lane i + 8, i + 4, i + 2, i + 1. That is the order of graph/reduction_shape.h; a machine with
// vectors of 8 runs the same code in twice as many instructions, with the same bits.
class RowSweep final : public SweepWriter {
 public:
  RowSweep(const ReductionPlan& plan, const KernelTarget& target, llvm::Module& module,
           const std::string& name)
      : SweepWriter(plan, target, module, name) {
    width_ = static_cast<int>(std::min(shape_.lanes, kRowWidth));
    slots_ = shape_.lanes / width_;
    make_slots(slots_, true);
  }

  std::int64_t units() const override { return shape_.blocks() * shape_.kept; }
  std::int64_t elements_per_unit() const override {
    return std::min(shape_.block_rows, shape_.row_count()) * shape_.block_minor;
  }

 private:
  void write_unit(llvm::Value* unit) override {
    llvm::Value* block = split(&unit, shape_.blocks());
    llvm::Value* column_block = split(&block, shape_.minor_blocks);
    llvm::Value* first_row = b_.CreateMul(block, number(shape_.block_rows));
    llvm::Value* last_row = number(shape_.row_count());
    if (shape_.row_blocks > 1) {
      last_row = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, last_row,
                                          b_.CreateAdd(first_row, number(shape_.block_rows)));
    }
    llvm::Value* begin = b_.CreateMul(column_block, number(shape_.block_minor));
    llvm::Value* end = number(shape_.minor);
    if (shape_.minor_blocks > 1) {
      end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end,
                                     b_.CreateAdd(begin, number(shape_.block_minor)));
    }
    const Affine kept = space_.add_loop(shape_.kept, 1);
    const Affine row = space_.add_loop(shape_.row_count(), 2);
    lane_ = space_.add_loop(shape_.minor, 3);
    index_ = shape_.operand_index(space_, kept, space_.add(space_.scale(row, shape_.minor), lane_));
    if (is_streamed()) {
      // What comes next lies in the next rows of this result, or just behind in memory.
      if (shape_.row_count() > 1) {
        emitter_.prefetch(row, (kAheadBytes / 4 + shape_.minor - 1) / shape_.minor);
      } else {
        emitter_.prefetch(lane_, kAheadBytes / 4);
      }
    }
    emitter_.bind(kept, unit);
    fill_slots();
    open_level(1);
    Loop rows = Loop::open(b_, first_row, last_row, 1);
    emitter_.bind(row, rows.variable);
    open_level(2);
    llvm::Value* is_first_row = b_.CreateICmpEQ(rows.variable, first_row);
    write_row(begin, end, is_first_row);
    rows.close(b_);
    finish_row(unit, block, column_block, b_.CreateSub(end, begin));
  }

  void write_row(llvm::Value* begin, llvm::Value* end, llvm::Value* is_first_row) {
    const auto place = [&](llvm::Value* j, int active, std::int64_t i, llvm::Value* is_first) {
      emitter_.open_lanes(width_, active);
      emitter_.bind_lane(lane_, j);
      const Values values = sweep(index_);
      store_slots(number(i), accumulated(load_slots(number(i)), values, is_first));
    };
    // Whole turns through the slots, then what is left of the last block.
    const std::int64_t whole = shape_.minor / shape_.lanes * shape_.lanes;
    if (whole > 0) {
      llvm::Value* last = number(whole);
      if (shape_.minor_blocks > 1) {
        last = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, last);
      }
      Loop turns = Loop::open(b_, begin, last, shape_.lanes);
      llvm::Value* is_first = b_.CreateAnd(is_first_row, b_.CreateICmpEQ(turns.variable, begin));
      for (std::int64_t i = 0; i < slots_; ++i) {
        place(b_.CreateAdd(turns.variable, number(i * width_)), width_, i, is_first);
      }
      turns.close(b_);
    }
    if (whole == shape_.minor) return;
    llvm::Value* is_last =
        shape_.minor_blocks > 1 ? b_.CreateICmpEQ(end, number(shape_.minor)) : nullptr;
    when(is_last, [&] {
      llvm::Value* is_first = b_.CreateAnd(is_first_row, b_.CreateICmpEQ(begin, number(whole)));
      for (std::int64_t i = 0, j = whole; j < shape_.minor; ++i, j += width_) {
        place(number(j), static_cast<int>(std::min<std::int64_t>(width_, shape_.minor - j)), i,
              is_first);
      }
    });
  }

  // Lane i takes in lane i + n/2 while n > 1; lanes at and past `length` are empty.
  //
  // A reducer without an identity (a maximum that keeps NaNs with their payload, a user's function)
  // has no value for a lane that took no element. Such a lane must not be combined: `keep` takes
  // the old value instead wherever the upper lane's number is not below the length.
  Values fold_lanes(const Reducer& reducer, std::vector<Values> slots, llvm::Value* length) {
    const auto keep = [&](const Values& sum, const Values& old, std::int64_t first, int count) {
      if (reducer.starts_full()) return sum;
      llvm::Value* exists = nullptr;
      if (count == 1) {
        exists = b_.CreateICmpSGT(length, number(first));
      } else {
        std::vector<llvm::Constant*> lanes;
        for (int l = 0; l < count; ++l) {
          lanes.push_back(b_.getInt64(static_cast<std::uint64_t>(first + l)));
        }
        exists = b_.CreateICmpSGT(b_.CreateVectorSplat(static_cast<unsigned>(count), length),
                                  llvm::ConstantVector::get(lanes));
      }
      Values kept;
      for (std::size_t c = 0; c < sum.size(); ++c) {
        kept.push_back(b_.CreateSelect(exists, sum[c], old[c]));
      }
      return kept;
    };
    for (std::size_t half = slots.size() / 2; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) {
        slots[i] = keep(combine(emitter_, b_, reducer, slots[i], slots[i + half]), slots[i],
                        static_cast<std::int64_t>(i + half) * width_, width_);
      }
    }
    Values lanes = slots[0];
    for (int half = width_ / 2; half > 0; half /= 2) {
      Values low, high;
      for (llvm::Value* value : lanes) {
        if (half == 1) {
          low.push_back(b_.CreateExtractElement(value, std::uint64_t{0}));
          high.push_back(b_.CreateExtractElement(value, std::uint64_t{1}));
          continue;
        }
        std::vector<int> first, second;
        for (int l = 0; l < half; ++l) {
          first.push_back(l);
          second.push_back(l + half);
        }
        low.push_back(b_.CreateShuffleVector(value, first));
        high.push_back(b_.CreateShuffleVector(value, second));
      }
      lanes = keep(combine(emitter_, b_, reducer, low, high), low, half, half);
    }
    return lanes;
  }

  void finish_row(llvm::Value* kept, llvm::Value* block, llvm::Value* column_block,
                  llvm::Value* length) {
    Values totals;
    for (const Reducer& reducer : plan_.reducers) {
      std::vector<Values> slots(at(slots_));
      for (std::int64_t i = 0; i < slots_; ++i) {
        for (int c = 0; c < reducer.components(); ++c) {
          slots[at(i)].push_back(load_slot(static_cast<std::size_t>(reducer.first + c), number(i)));
        }
      }
      for (llvm::Value* value : fold_lanes(reducer, std::move(slots), length)) {
        totals.push_back(value);
      }
    }
    if (!plan_.is_cut()) {
      const Affine position = finisher_.space().add_loop(shape_.kept, 1);
      finisher_.emitter().open_lanes(1, 1);
      finisher_.emitter().bind_lane(position, kept);
      finisher_.finish(position, finisher_.with_initial(totals));
      return;
    }
    llvm::Value* number_of_block =
        b_.CreateAdd(b_.CreateMul(block, number(shape_.minor_blocks)), column_block);
    llvm::Value* at = b_.CreateAdd(b_.CreateMul(number_of_block, number(shape_.kept)), kept);
    for (std::size_t c = 0; c < totals.size(); ++c) {
      llvm::Value* address = b_.CreateInBoundsGEP(
          memory_type(b_.getContext(), plan_.accumulators[c], 1), partials(c), at);
      b_.CreateStore(to_memory(b_, totals[c], plan_.accumulators[c]), address);
    }
  }

  std::int64_t slots_ = 1;
  Affine lane_;
  Index index_;
};

}  // namespace

std::unique_ptr<SweepWriter> make_row_sweep(const ReductionPlan& plan, const KernelTarget& target,
                                            llvm::Module& module, const std::string& name) {
  return std::make_unique<RowSweep>(plan, target, module, name);
}

}  // namespace plimsoll::jit
