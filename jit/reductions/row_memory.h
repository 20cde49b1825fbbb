// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <vector>

#include "jit/emit/value_emitter.h"
#include "jit/reductions/row_writer.h"

namespace plimsoll::jit {

// What stands on the stack from sweep to sweep over some rows: what is known of each row, and the
// rows of what is kept (KeptValue) and has no output to lie in.
class RowMemory {
 public:
  // For `rows` rows of `elements` elements. `entry`: where the stack is laid out.
  RowMemory(const RowPlan& plan, const RowStages& stages, llvm::IRBuilder<>& builder,
            llvm::Instruction* entry, std::int64_t elements, int rows);

  // Takes in what the last sweep told.
  void remember();
  // From now on of row `row`; addresses are known before `anchor`.
  void open_row(llvm::Value* row, llvm::Instruction* anchor);
  // What is known of the row, for an emitter of its vectors.
  void tell(ValueEmitter& emitter) const;
  // Where element `element` of the row of kept value `kept` is; null if it lies in an output.
  llvm::Value* kept_at(std::size_t kept, llvm::Value* element);

 private:
  // A scalar for every row.
  struct Place {
    llvm::Value* address = nullptr;  // null: the same for all rows
    ir::DType dtype = ir::DType::f32;
  };

  const RowPlan& plan_;
  const RowStages& stages_;
  llvm::IRBuilder<>& b_;
  llvm::Instruction* entry_;
  const std::int64_t elements_;
  std::vector<Place> known_;           // as RowStages::known
  std::vector<llvm::Value*> scalars_;  // the same of one row
  std::vector<llvm::Value*> kept_, kept_of_row_;
};

}  // namespace plimsoll::jit
