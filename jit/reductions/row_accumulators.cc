// SPDX-License-Identifier: Apache-2.0
#include "jit/reductions/row_accumulators.h"

#include "jit/emit/elementwise.h"
#include "jit/reductions/row_fold.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {

using llvm::Value;

RowAccumulators::RowAccumulators(RowStages& stages, llvm::IRBuilder<>& builder,
                                 llvm::Instruction* entry, int width,
                                 const std::vector<std::int64_t>& slots, int rows)
    : stages_(stages), b_(builder), width_(width), count_(rows) {
  llvm::IRBuilder<> stack(entry);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const ir::DType dtype = stages.accumulator(static_cast<int>(i));
    const auto make = [&](int lanes, std::int64_t count) {
      return stack.CreateAlloca(memory_type(stack.getContext(), dtype, lanes),
                                stack.getInt64(static_cast<std::uint64_t>(count)));
    };
    std::vector<Value*>& all = slots_.emplace_back();
    for (std::int64_t k = 0; k < slots[i]; ++k) all.push_back(make(width, 1));
    rows_.push_back(make(width, rows));
    totals_.push_back(make(1, 1));
  }
}

Value* RowAccumulators::load(Value* address, int reduce, int width) {
  const ir::DType dtype = stages_.accumulator(reduce);
  return to_register(b_, b_.CreateLoad(memory_type(b_.getContext(), dtype, width), address), dtype);
}

void RowAccumulators::save(Value* value, Value* address, int reduce) {
  b_.CreateStore(to_memory(b_, value, stages_.accumulator(reduce)), address);
}

Value* RowAccumulators::row_at(int reduce, Value* row) {
  llvm::Type* type = memory_type(b_.getContext(), stages_.accumulator(reduce), width_);
  return b_.CreateInBoundsGEP(type, rows_[at(reduce)], row);
}

Value* RowAccumulators::folded(int reduce) {
  std::vector<Value*> slots;
  for (Value* slot : slots_[at(reduce)]) slots.push_back(load(slot, reduce, width_));
  return fold_slots(stages_, reduce, std::move(slots));
}

void RowAccumulators::clear(int reduce) {
  Value* nothing = b_.CreateVectorSplat(static_cast<unsigned>(width_), stages_.identity(reduce));
  for (Value* slot : slots_[at(reduce)]) save(nothing, slot, reduce);
}

void RowAccumulators::add(int reduce, std::int64_t slot, Value* value) {
  Value* place = slots_[at(reduce)][at(slot)];
  save(stages_.combined(reduce, load(place, reduce, width_), value), place, reduce);
}

void RowAccumulators::finish_row(int reduce, Value* row) {
  save(folded(reduce), row_at(reduce, row), reduce);
}

Value* RowAccumulators::total_of_rows(int reduce) {
  std::vector<Value*> rows;
  for (int r = 0; r < count_; ++r) {
    rows.push_back(
        load(row_at(reduce, b_.getInt64(static_cast<std::uint64_t>(r))), reduce, width_));
  }
  return stages_.combined(reduce, stages_.initial(reduce),
                          fold_lanes(b_, stages_, reduce, std::move(rows)));
}

void RowAccumulators::start_total(int reduce) {
  save(stages_.initial(reduce), totals_[at(reduce)], reduce);
}

void RowAccumulators::finish_block(int reduce) {
  Value* total = totals_[at(reduce)];
  save(stages_.combined(reduce, load(total, reduce, 1),
                        fold_lanes(b_, stages_, reduce, {folded(reduce)})),
       total, reduce);
}

}  // namespace plimsoll::jit
