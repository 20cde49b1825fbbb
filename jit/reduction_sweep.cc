// SPDX-License-Identifier: Apache-2.0
#include "jit/reduction_sweep.h"

#include <algorithm>
#include <bit>

#include "jit/elementwise.h"

namespace plimsoll::jit {
namespace {

using Values = std::vector<llvm::Value*>;

constexpr int kWidth = 16;
constexpr std::int64_t kColumns = 256;  // of one unit, when columns are reduced

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

class SweepWriter {
 public:
  SweepWriter(const ReductionPlan& plan, llvm::Module& module, const std::string& name)
      : plan_(plan),
        shape_(plan.shape),
        b_(module.getContext()),
        function_(PhaseFunction::create(module, name, b_)),
        emitter_(plan.graph, space_, b_, function_, 3),
        finisher_(plan, b_, function_) {
    if (shape_.rows) {
      width_ = static_cast<int>(std::min<std::int64_t>(shape_.lanes, kWidth));
      slots_ = shape_.lanes / width_;
    } else {
      width_ = static_cast<int>(std::bit_ceil(
          static_cast<std::uint64_t>(std::clamp<std::int64_t>(shape_.minor, 1, kWidth))));
      chunk_ = std::min(kColumns, shape_.minor);
      chunks_ = divide_up(shape_.minor, chunk_);
      slots_ = shape_.lanes * divide_up(chunk_, width_);
    }
  }

  std::int64_t units() const {
    return shape_.blocks() * (shape_.rows ? shape_.kept : shape_.kept / shape_.minor * chunks_);
  }
  std::int64_t elements_per_unit() const {
    return shape_.rows ? std::min(shape_.block_rows, shape_.row_count()) * shape_.block_minor
                       : std::min(shape_.block_rows, shape_.reduced) * chunk_;
  }

  Status write() {
    make_accumulators();
    Loop units = Loop::open(b_, function_.begin, function_.end, 1);
    if (shape_.rows) {
      write_row_unit(units.variable);
    } else {
      write_column_unit(units.variable);
    }
    units.close(b_);
    b_.CreateRetVoid();
    PLIMSOLL_RETURN_IF_ERROR(emitter_.status());
    return finisher_.emitter().status();
  }

 private:
  llvm::Value* number(std::int64_t n) { return b_.getInt64(static_cast<std::uint64_t>(n)); }

  // Splits `*unit` by `count`: returns the remainder and leaves the quotient.
  llvm::Value* split(llvm::Value** unit, std::int64_t count) {
    if (count == 1) return number(0);
    llvm::Value* low = b_.CreateURem(*unit, number(count));
    *unit = b_.CreateUDiv(*unit, number(count));
    return low;
  }

  // A place for code that stays the same in the loops of deeper levels.
  void open_level(int level) {
    auto* next = llvm::BasicBlock::Create(b_.getContext(), "level", function_.function);
    emitter_.anchor(level, b_.CreateBr(next));
    b_.SetInsertPoint(next);
  }

  llvm::Type* slot_type(std::size_t component) {
    return memory_type(b_.getContext(), plan_.accumulators[component], width_);
  }

  void make_accumulators() {
    llvm::IRBuilder<> entry(function_.entry_anchor);
    for (std::size_t c = 0; c < plan_.accumulators.size(); ++c) {
      slots_of_.push_back(entry.CreateAlloca(slot_type(c), number(slots_)));
    }
  }

  llvm::Value* slot(std::size_t component, llvm::Value* i) {
    if (slots_ == 1) return slots_of_[component];
    return b_.CreateInBoundsGEP(slot_type(component), slots_of_[component], i);
  }

  llvm::Value* load_slot(std::size_t component, llvm::Value* i) {
    llvm::Value* value = b_.CreateLoad(slot_type(component), slot(component, i));
    return to_register(b_, value, plan_.accumulators[component]);
  }

  void store_slot(std::size_t component, llvm::Value* i, llvm::Value* value) {
    b_.CreateStore(to_memory(b_, value, plan_.accumulators[component]), slot(component, i));
  }

  llvm::Value* splat(llvm::Value* value) {
    if (width_ == 1 || value->getType()->isVectorTy()) return value;
    return b_.CreateVectorSplat(static_cast<unsigned>(width_), value);
  }

  void fill_slots(std::int64_t count) {
    Values initial;
    if (plan_.reducers.front().in_order) initial = finisher_.initial();
    const auto fill = [&](llvm::Value* i) {
      for (const Reducer& reducer : plan_.reducers) {
        for (int c = 0; c < reducer.components(); ++c) {
          const auto component = static_cast<std::size_t>(reducer.first + c);
          llvm::Value* value = llvm::Constant::getNullValue(
              register_type(b_.getContext(), plan_.accumulators[component], 1));
          if (reducer.in_order) value = initial[component];
          if (!reducer.identity.empty()) value = reducer.identity[static_cast<std::size_t>(c)];
          store_slot(component, i, splat(value));
        }
      }
    };
    if (count <= 4) {
      for (std::int64_t i = 0; i < count; ++i) fill(number(i));
      return;
    }
    Loop loop = Loop::open(b_, number(0), number(count), 1);
    fill(loop.variable);
    loop.close(b_);
  }

  // The operand elements of all reducers, and the swept roots' stores, at one place.
  Values sweep(const Index& index) {
    Values values;
    for (const Reducer& reducer : plan_.reducers) {
      for (int c = 0; c < reducer.components(); ++c) {
        const Node node = plan_.graph.operand(*reducer.reduce, c);
        values.push_back(splat(emit_convert(b_, emitter_.value(node, index), node.dtype(),
                                            reducer.accumulators[static_cast<std::size_t>(c)])));
      }
    }
    Values stored;
    for (const int root : plan_.swept) {
      stored.push_back(emitter_.value(plan_.graph.roots()[static_cast<std::size_t>(root)], index));
    }
    for (std::size_t i = 0; i < stored.size(); ++i) {
      const Node& node = plan_.graph.roots()[static_cast<std::size_t>(plan_.swept[i])];
      emitter_.store(function_.output(plan_.swept[i]), space_.linearize(index, node.dims()),
                     stored[i], node.dtype());
    }
    return values;
  }

  // Combines `values` into slot `i`. `is_first` (a scalar i1) says that the slot is still empty.
  void accumulate(llvm::Value* i, const Values& values, llvm::Value* is_first) {
    for (const Reducer& reducer : plan_.reducers) {
      Values old, added;
      for (int c = 0; c < reducer.components(); ++c) {
        const auto component = static_cast<std::size_t>(reducer.first + c);
        old.push_back(load_slot(component, i));
        added.push_back(values[component]);
      }
      const Values sum = combine(emitter_, b_, reducer, old, added);
      for (int c = 0; c < reducer.components(); ++c) {
        const auto part = static_cast<std::size_t>(c);
        llvm::Value* value = splat(sum[part]);
        if (!reducer.starts_full()) value = b_.CreateSelect(is_first, added[part], value);
        if (emitter_.active() < width_) {
          value = b_.CreateSelect(emitter_.active_mask(), value, old[part]);
        }
        store_slot(static_cast<std::size_t>(reducer.first + c), i, value);
      }
    }
  }

  void write_row_unit(llvm::Value* unit) {
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
    emitter_.bind(kept, unit);
    fill_slots(slots_);
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
    const std::int64_t whole = shape_.minor / width_ * width_;
    const auto place = [&](llvm::Value* j, int active) {
      emitter_.open_lanes(width_, active);
      emitter_.bind_lane(lane_, j);
      llvm::Value* offset = b_.CreateSub(j, begin);
      llvm::Value* i = b_.CreateAnd(b_.CreateUDiv(offset, number(width_)), number(slots_ - 1));
      llvm::Value* is_first =
          b_.CreateAnd(is_first_row, b_.CreateICmpULT(offset, number(shape_.lanes)));
      const Values values = sweep(index_);
      accumulate(i, values, is_first);
    };
    if (whole > 0) {
      Loop lanes = Loop::open(
          b_, begin, b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, number(whole)), width_);
      place(lanes.variable, width_);
      lanes.close(b_);
    }
    const auto rest = static_cast<int>(shape_.minor - whole);
    if (rest == 0) return;
    if (shape_.minor_blocks == 1) {
      place(number(whole), rest);
      return;
    }
    auto* tail = llvm::BasicBlock::Create(b_.getContext(), "tail", function_.function);
    auto* done = llvm::BasicBlock::Create(b_.getContext(), "done", function_.function);
    b_.CreateCondBr(b_.CreateICmpEQ(end, number(shape_.minor)), tail, done);
    b_.SetInsertPoint(tail);
    place(number(whole), rest);
    b_.CreateBr(done);
    b_.SetInsertPoint(done);
  }

  // Lane i takes in lane i + n/2 while n > 1; lanes at and past `length` are empty.
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
      std::vector<Values> slots(static_cast<std::size_t>(slots_));
      for (std::int64_t i = 0; i < slots_; ++i) {
        for (int c = 0; c < reducer.components(); ++c) {
          slots[static_cast<std::size_t>(i)].push_back(
              load_slot(static_cast<std::size_t>(reducer.first + c), number(i)));
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

  llvm::Value* partials(std::size_t component) {
    return b_.CreateConstInBoundsGEP1_64(
        b_.getInt8Ty(), function_.workspace,
        static_cast<std::uint64_t>(plan_.partial_offset[component]));
  }

  void write_column_unit(llvm::Value* unit) {
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
    const Affine row = space_.add_loop(shape_.reduced, 2);
    lane_ = space_.add_loop(shape_.minor, 3);
    index_ =
        shape_.operand_index(space_, space_.add(space_.scale(major, shape_.minor), lane_), row);
    emitter_.bind(major, unit);
    fill_slots(slots_);
    open_level(1);
    Loop rows = Loop::open(b_, first_row, last_row, 1);
    emitter_.bind(row, rows.variable);
    open_level(2);
    llvm::Value* offset = b_.CreateSub(rows.variable, first_row);
    llvm::Value* is_first = b_.CreateICmpULT(offset, number(shape_.lanes));
    llvm::Value* group =
        b_.CreateMul(b_.CreateURem(offset, number(shape_.lanes)), number(slots_ / shape_.lanes));
    for_columns(begin, [&](llvm::Value* c, int active) {
      emitter_.open_lanes(width_, active);
      emitter_.bind_lane(lane_, c);
      const Values values = sweep(index_);
      accumulate(b_.CreateAdd(group, column_slot(c, begin)), values, is_first);
    });
    rows.close(b_);
    llvm::Value* count = b_.CreateSub(last_row, first_row);
    for_columns(begin, [&](llvm::Value* c, int active) {
      finish_columns(unit, block, c, column_slot(c, begin), count, active);
    });
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
    if (chunks_ == 1) {
      f(number(whole), rest);
      return;
    }
    auto* tail = llvm::BasicBlock::Create(b_.getContext(), "tail", function_.function);
    auto* done = llvm::BasicBlock::Create(b_.getContext(), "done", function_.function);
    b_.CreateCondBr(b_.CreateICmpEQ(begin, number((chunks_ - 1) * chunk_)), tail, done);
    b_.SetInsertPoint(tail);
    f(number(whole), rest);
    b_.CreateBr(done);
    b_.SetInsertPoint(done);
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
    const std::int64_t stride = slots_ / shape_.lanes;
    for (const Reducer& reducer : plan_.reducers) {
      Values sum;
      for (std::int64_t l = 0; l < shape_.lanes; ++l) {
        Values next;
        for (int part = 0; part < reducer.components(); ++part) {
          next.push_back(load_slot(static_cast<std::size_t>(reducer.first + part),
                                   b_.CreateAdd(column, number(l * stride))));
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

  const ReductionPlan& plan_;
  const ReductionShape& shape_;
  llvm::IRBuilder<> b_;
  PhaseFunction function_;
  IndexSpace space_;
  ValueEmitter emitter_;
  ReductionFinisher finisher_;
  int width_ = 1;
  std::int64_t slots_ = 1;  // vectors of accumulators per component
  std::int64_t chunk_ = 1, chunks_ = 1;
  std::vector<llvm::Value*> slots_of_;
  Affine lane_, final_major_, final_lane_;
  Index index_;
};

}  // namespace

Result<Phase> write_sweep(const ReductionPlan& plan, llvm::Module& module, const std::string& name,
                          double element_seconds) {
  SweepWriter writer(plan, module, name);
  PLIMSOLL_RETURN_IF_ERROR(writer.write());
  Phase phase;
  phase.function = name;
  phase.units = writer.units();
  phase.unit_seconds = element_seconds * static_cast<double>(writer.elements_per_unit()) + 10e-9;
  return phase;
}

}  // namespace plimsoll::jit
