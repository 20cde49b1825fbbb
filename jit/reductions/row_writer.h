// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "jit/emit/kernel_code.h"
#include "jit/emit/value_emitter.h"
#include "jit/graph/row_plan.h"
#include "jit/reductions/reducer.h"
#include "jit/reductions/reduction_plan.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {

// Vectors of this many elements, whatever the dtype and the machine.
inline constexpr int kRowWidth = 16;

// What the writers of row kernels share: the values between the sweeps, at the emitter `once`.
class RowStages {
 public:
  RowStages(RowPlan& plan, llvm::IRBuilder<>& builder, ValueEmitter& once,
            llvm::LLVMContext& context);

  const std::vector<Reducer>& reducers() const { return reducers_; }
  const Reducer& reducer(int i) const { return reducers_[at(i)]; }
  ir::DType accumulator(int i) const { return reducer(i).accumulators[0]; }
  llvm::Constant* identity(int i) const { return reducer(i).identity[0]; }
  // What reduce `i` makes of two totals.
  llvm::Value* combined(int i, llvm::Value* a, llvm::Value* b);
  // The initial value of reduce `i`, in its accumulator's dtype.
  llvm::Value* initial(int i);
  // The elements reduce `i` takes from `emitter` at its place, in the accumulator's dtype.
  llvm::Value* element(int i, ValueEmitter& emitter);

  // The totals of a sweep's reduces in the order of `plan.reduces`: computes the values that stand
  // between this sweep and the next ones.
  void finish_sweep(int sweep, const std::vector<llvm::Value*>& totals);
  // Everything known between the sweeps so far, for another emitter.
  void tell(ValueEmitter& emitter) const;
  // The same: where `once` has a row in every lane, these are vectors of rows.
  struct Known {
    RowValue at;
    llvm::Value* value;
  };
  const std::vector<Known>& known() const { return known_; }
  // (Root, value) of the results that have one element a row.
  std::vector<std::pair<int, llvm::Value*>> row_results();

 private:
  RowPlan& plan_;
  llvm::IRBuilder<>& builder_;
  ValueEmitter& once_;
  std::vector<Reducer> reducers_;
  std::vector<Known> known_;
};

// The phase for rows along the lanes (`plan` made for RowLayout::loops), and for several short rows
// in the lanes of one vector (RowLayout::in_lanes; at most kShortRowLanes elements a row). With
// `columns`, which the plan's reduces along columns are, a unit is a block of theirs.
Result<Phase> write_long_rows(RowPlan& plan, const ReductionPlan* columns,
                              const KernelTarget& target, llvm::Module& module,
                              const std::string& name);
Result<Phase> write_short_rows(RowPlan& plan, llvm::Module& module, const std::string& name);

}  // namespace plimsoll::jit
