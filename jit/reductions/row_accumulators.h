// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <vector>

#include "jit/reductions/row_writer.h"

namespace plimsoll::jit {

// Where the sweeps over some rows add up, on the stack: slots, vectors that take the elements of
// one row in turn; a vector for every row that is through; totals of rows that are cut in blocks.
class RowAccumulators {
 public:
  // Of every reduce of `stages`, for `rows` rows (one where they are cut): `slots` vectors of
  // `width`. `entry`: where the stack is laid out.
  RowAccumulators(RowStages& stages, llvm::IRBuilder<>& builder, llvm::Instruction* entry,
                  int width, const std::vector<std::int64_t>& slots, int rows);

  // The slots hold nothing but the identity.
  void clear(int reduce);
  void add(int reduce, std::int64_t slot, llvm::Value* value);

  // The slots are all of row `row`.
  void finish_row(int reduce, llvm::Value* row);
  // As `once` has it: of all rows that are finished.
  llvm::Value* total_of_rows(int reduce);

  // The total of a cut row: starts with the initial value, takes in the slots, and is done.
  void start_total(int reduce);
  void finish_block(int reduce);
  llvm::Value* total_of_blocks(int reduce) { return load(totals_[at(reduce)], reduce, 1); }

 private:
  llvm::Value* load(llvm::Value* address, int reduce, int width);
  void save(llvm::Value* value, llvm::Value* address, int reduce);
  llvm::Value* row_at(int reduce, llvm::Value* row);
  llvm::Value* folded(int reduce);

  RowStages& stages_;
  llvm::IRBuilder<>& b_;
  const int width_, count_;
  std::vector<std::vector<llvm::Value*>> slots_;  // by reduce, as the others
  std::vector<llvm::Value*> rows_, totals_;
};

}  // namespace plimsoll::jit
