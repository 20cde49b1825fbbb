// SPDX-License-Identifier: Apache-2.0
#include "jit/reductions/row_kernel.h"

#include <algorithm>

#include "jit/emit/elementwise.h"
#include "jit/reductions/reduction_kernel.h"
#include "jit/reductions/row_writer.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {

RowStages::RowStages(RowPlan& plan, llvm::IRBuilder<>& builder, ValueEmitter& once,
                     llvm::LLVMContext& context)
    : plan_(plan), builder_(builder), once_(once), reducers_(make_reducers(plan.graph, context)) {}

llvm::Value* RowStages::combined(int i, llvm::Value* a, llvm::Value* b) {
  return combine(once_, builder_, reducer(i), {a}, {b})[0];
}

llvm::Value* RowStages::initial(int i) {
  const KernelNode node = plan_.graph.operand(*reducer(i).reduce, 1);
  return once_.widen(emit_convert(builder_, once_.value(node, {}), node.dtype(), accumulator(i)));
}

llvm::Value* RowStages::element(int i, ValueEmitter& emitter) {
  const KernelNode node = plan_.graph.operand(*reducer(i).reduce, 0);
  return emit_convert(builder_, emitter.widen(emitter.value(node, plan_.own_index(node.dims()))),
                      node.dtype(), accumulator(i));
}

void RowStages::finish_sweep(int sweep, const std::vector<llvm::Value*>& totals) {
  const auto s = at(sweep);
  const auto learn = [&](const RowValue& at, llvm::Value* value) {
    once_.assume(at.node, at.index, value);
    known_.push_back({at, value});
  };
  for (std::size_t i = 0; i < totals.size(); ++i) {
    const int number = plan_.reduces[s][i];
    KernelNode node;
    node.instruction = reducer(number).reduce;
    node.shape = &node.instruction->shape();
    learn({node, plan_.own_index(node.dims())},
          emit_convert(builder_, totals[i], accumulator(number), node.dtype()));
  }
  for (const RowValue& at : plan_.row_values[s]) learn(at, once_.value(at.node, at.index));
}

void RowStages::tell(ValueEmitter& emitter) const {
  for (const Known& known : known_) emitter.assume(known.at.node, known.at.index, known.value);
}

std::vector<std::pair<int, llvm::Value*>> RowStages::row_results() {
  std::vector<std::pair<int, llvm::Value*>> results;
  for (const int root : plan_.row_roots) {
    const KernelNode& node = plan_.graph.roots()[at(root)];
    results.emplace_back(root, once_.value(node, plan_.own_index(node.dims())));
  }
  return results;
}

Status write_row_kernel(const KernelGraph& graph, const KernelTarget& target, KernelCode& code) {
  PLIMSOLL_ASSIGN_OR_RETURN(RowPlan plan, make_row_plan(graph, RowLayout::loops));
  if (!plan.columns.empty()) {
    const ReductionPlan columns = make_column_plan(plan, *code.context);
    code.workspace_bytes = columns.workspace_bytes;
    PLIMSOLL_ASSIGN_OR_RETURN(Phase rows,
                              write_long_rows(plan, &columns, target, *code.module, "rows"));
    PLIMSOLL_ASSIGN_OR_RETURN(Phase combine, write_combination(columns, *code.module, "combine"));
    code.phases.push_back(std::move(rows));
    code.phases.push_back(std::move(combine));
  } else if (plan.cut.lanes <= kShortRowLanes && plan.shape.rows > 1) {
    PLIMSOLL_ASSIGN_OR_RETURN(RowPlan side_by_side, make_row_plan(graph, RowLayout::in_lanes));
    PLIMSOLL_ASSIGN_OR_RETURN(Phase phase, write_short_rows(side_by_side, *code.module, "rows"));
    code.phases.push_back(std::move(phase));
  } else {
    PLIMSOLL_ASSIGN_OR_RETURN(Phase phase,
                              write_long_rows(plan, nullptr, target, *code.module, "rows"));
    code.phases.push_back(std::move(phase));
  }
  return ok_status();
}

}  // namespace plimsoll::jit
