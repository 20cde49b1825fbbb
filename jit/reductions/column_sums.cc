// SPDX-License-Identifier: Apache-2.0
#include "jit/reductions/column_sums.h"

#include "jit/emit/elementwise.h"

namespace plimsoll::jit {

ColumnSums::ColumnSums(const ReductionPlan& plan, llvm::IRBuilder<>& builder,
                       PhaseFunction& function, int width)
    : plan_(plan),
      b_(builder),
      function_(function),
      finisher_(plan, builder, function),
      width_(width),
      vectors_(divide_up(plan.shape.minor, width)) {
  llvm::IRBuilder<> entry(function.entry_anchor);
  for (std::size_t i = 0; i < plan.accumulators.size(); ++i) {
    accumulators_.push_back(
        entry.CreateAlloca(type_of(i, width_), number(plan.shape.lanes * vectors_)));
  }
}

llvm::Type* ColumnSums::type_of(std::size_t reduce, int lanes) const {
  return memory_type(b_.getContext(), plan_.accumulators[reduce], lanes);
}

llvm::Value* ColumnSums::address(std::size_t reduce, llvm::Value* lane, llvm::Value* vector) {
  llvm::Value* place = b_.CreateNSWAdd(b_.CreateNSWMul(lane, number(vectors_)), vector);
  return b_.CreateInBoundsGEP(type_of(reduce, width_), accumulators_[reduce], place);
}

ColumnSums::Values ColumnSums::load(llvm::Value* lane, llvm::Value* vector) {
  Values values;
  for (std::size_t i = 0; i < accumulators_.size(); ++i) {
    llvm::Value* stored = b_.CreateLoad(type_of(i, width_), address(i, lane, vector));
    values.push_back(to_register(b_, stored, plan_.accumulators[i]));
  }
  return values;
}

void ColumnSums::clear() {
  Loop loop = Loop::open(b_, number(0), number(plan_.shape.lanes * vectors_), 1);
  for (std::size_t i = 0; i < accumulators_.size(); ++i) {
    llvm::Value* nothing =
        b_.CreateVectorSplat(static_cast<unsigned>(width_), plan_.reducers[i].identity[0]);
    b_.CreateStore(to_memory(b_, nothing, plan_.accumulators[i]),
                   address(i, number(0), loop.variable));
  }
  loop.close(b_);
}

void ColumnSums::add(llvm::Value* row, llvm::Value* first, const Values& elements) {
  // Blocks begin at multiples of the lanes.
  llvm::Value* lane = b_.CreateURem(row, number(plan_.shape.lanes));
  llvm::Value* vector = b_.CreateUDiv(first, number(width_));
  const Values sums = finisher_.combine_all(load(lane, vector), elements);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    b_.CreateStore(to_memory(b_, sums[i], plan_.accumulators[i]), address(i, lane, vector));
  }
}

void ColumnSums::finish_block(llvm::Value* block) {
  const std::int64_t whole = plan_.shape.minor / width_;
  if (whole > 0) {
    Loop loop = Loop::open(b_, number(0), number(whole), 1);
    finish_vector(block, loop.variable, width_);
    loop.close(b_);
  }
  const auto rest = static_cast<int>(plan_.shape.minor - whole * width_);
  if (rest > 0) finish_vector(block, number(whole), rest);
}

void ColumnSums::finish_vector(llvm::Value* block, llvm::Value* vector, int active) {
  ValueEmitter& emitter = finisher_.emitter();
  emitter.open_lanes(width_, active);
  Values totals = load(number(0), vector);
  for (std::int64_t lane = 1; lane < plan_.shape.lanes; ++lane) {
    totals = finisher_.combine_all(totals, load(number(lane), vector));
  }
  llvm::Value* place = b_.CreateNSWAdd(b_.CreateNSWMul(block, number(plan_.shape.kept)),
                                       b_.CreateNSWMul(vector, number(width_)));
  for (std::size_t i = 0; i < totals.size(); ++i) {
    const ir::DType dtype = plan_.accumulators[i];
    llvm::Value* partials = b_.CreateConstInBoundsGEP1_64(
        b_.getInt8Ty(), function_.workspace, static_cast<std::uint64_t>(plan_.partial_offset[i]));
    llvm::Value* to = b_.CreateInBoundsGEP(type_of(i, 1), partials, place);
    llvm::Value* value = to_memory(b_, totals[i], dtype);
    const llvm::Align alignment(static_cast<std::uint64_t>(ir::dtype_bytes(dtype)));
    if (active == width_) {
      b_.CreateAlignedStore(value, to, alignment);
    } else {
      b_.CreateMaskedStore(value, to, alignment, emitter.active_mask());
    }
  }
}

}  // namespace plimsoll::jit
