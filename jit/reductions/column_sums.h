// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <vector>

#include "jit/reductions/reduction_plan.h"

namespace plimsoll::jit {

// Where a sweep over rows adds up columns, on the stack: as graph/reduction_shape.h says, an
// accumulator for every column and lane, in vectors along the row. A block's results go to the
// workspace.
class ColumnSums {
 public:
  // In vectors of `width` columns.
  ColumnSums(const ReductionPlan& plan, llvm::IRBuilder<>& builder, PhaseFunction& function,
             int width);

  // A block begins: nothing is added up.
  void clear();
  // Adds the elements (by reduce, in accumulators' dtypes) of row `row` from column `first` on, a
  // multiple of the width; what is past the last column counts for nothing.
  void add(llvm::Value* row, llvm::Value* first, const std::vector<llvm::Value*>& elements);
  // What the lanes of each column come to, in order, is the result of block `block`.
  void finish_block(llvm::Value* block);
  const Status& status() { return finisher_.emitter().status(); }

 private:
  using Values = std::vector<llvm::Value*>;

  llvm::Value* number(std::int64_t n) { return b_.getInt64(static_cast<std::uint64_t>(n)); }
  llvm::Type* type_of(std::size_t reduce, int lanes) const;
  // Of vector `vector` of accumulator lane `lane`.
  llvm::Value* address(std::size_t reduce, llvm::Value* lane, llvm::Value* vector);
  Values load(llvm::Value* lane, llvm::Value* vector);
  void finish_vector(llvm::Value* block, llvm::Value* vector, int active);

  const ReductionPlan& plan_;
  llvm::IRBuilder<>& b_;
  PhaseFunction& function_;
  ReductionFinisher finisher_;
  const int width_;
  const std::int64_t vectors_;              // of a row
  std::vector<llvm::Value*> accumulators_;  // by reduce
};

}  // namespace plimsoll::jit
