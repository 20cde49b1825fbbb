// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "jit/emit/value_emitter.h"
#include "jit/graph/graph.h"
#include "jit/graph/reduction_shape.h"
#include "jit/graph/row_plan.h"
#include "jit/reductions/reducer.h"

namespace plimsoll::jit {

// What all phases of one reduction kernel share.
struct ReductionPlan {
  const KernelGraph& graph;
  ReductionShape shape;
  std::vector<Reducer> reducers;
  std::vector<ir::DType> accumulators;       // of all components
  std::vector<std::int64_t> partial_offset;  // bytes in the workspace, per component
  std::int64_t workspace_bytes = 0;
  // Numbers of the roots stored for every operand element, and of those of the results' size.
  std::vector<int> swept, final;

  bool is_cut() const { return shape.blocks() != 1; }
};

ReductionPlan make_reduction_plan(const KernelGraph& graph, llvm::LLVMContext& context);
// Of the reduces of a row fusion that are along columns. Every block leaves its results in the
// workspace, also where there is one.
ReductionPlan make_column_plan(const RowPlan& rows, llvm::LLVMContext& context);

// The end of a reduction: initial values, the epilogue and its stores. The emitter's only loop
// level is its lane level; positions are the results' row-major ones.
class ReductionFinisher {
 public:
  ReductionFinisher(const ReductionPlan& plan, llvm::IRBuilder<>& builder, PhaseFunction& function);

  IndexSpace& space() { return space_; }
  ValueEmitter& emitter() { return emitter_; }

  // Per component, in accumulator dtypes.
  std::vector<llvm::Value*> initial();
  std::vector<llvm::Value*> combine_all(const std::vector<llvm::Value*>& a,
                                        const std::vector<llvm::Value*>& b);
  // The initial values combined with what all blocks gave.
  std::vector<llvm::Value*> with_initial(const std::vector<llvm::Value*>& totals);
  // Writes the epilogue of the results at `kept_position`.
  void finish(const Affine& kept_position, const std::vector<llvm::Value*>& totals);

 private:
  const ReductionPlan& plan_;
  llvm::IRBuilder<>& builder_;
  PhaseFunction& function_;
  IndexSpace space_;
  ValueEmitter emitter_;
};

}  // namespace plimsoll::jit
