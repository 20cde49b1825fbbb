// SPDX-License-Identifier: Apache-2.0
#include "jit/reductions/reduction_plan.h"

#include "jit/emit/elementwise.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

using Values = std::vector<llvm::Value*>;

constexpr std::int64_t kPartialAlignment = 64;

// Where the blocks leave their results.
void place_partials(ReductionPlan& plan) {
  for (const Reducer& reducer : plan.reducers) {
    for (const ir::DType dtype : reducer.accumulators) {
      plan.accumulators.push_back(dtype);
      plan.partial_offset.push_back(plan.workspace_bytes);
      const std::int64_t bytes = plan.shape.kept * plan.shape.blocks() * ir::dtype_bytes(dtype);
      plan.workspace_bytes +=
          (bytes + kPartialAlignment - 1) / kPartialAlignment * kPartialAlignment;
    }
  }
}

}  // namespace

ReductionPlan make_reduction_plan(const KernelGraph& graph, llvm::LLVMContext& context) {
  const ir::Instruction& first = *graph.reduces().front();
  std::vector<Reducer> reducers = make_reducers(graph, context);
  ReductionPlan plan{graph,
                     ReductionShape::of(graph.operand(first, 0).dims(),
                                        first.attributes().dimensions, reducers.front().in_order),
                     std::move(reducers),
                     {},
                     {},
                     0,
                     {},
                     {}};
  place_partials(plan);
  if (!plan.is_cut()) plan.workspace_bytes = 0;
  for (std::size_t i = 0; i < graph.roots().size(); ++i) {
    const KernelNode& root = graph.roots()[i];
    const bool swept = !graph.follows_reduce(root) && root.dims() == plan.shape.dims;
    (swept ? plan.swept : plan.final).push_back(static_cast<int>(i));
  }
  return plan;
}

ReductionPlan make_column_plan(const RowPlan& rows, llvm::LLVMContext& context) {
  const std::vector<Reducer> all = make_reducers(rows.graph, context);
  ReductionPlan plan{rows.graph, rows.column_cut(), {}, {}, {}, 0, {}, rows.column_roots};
  for (const int column : rows.columns) {
    plan.reducers.push_back(all[at(column)]);
    plan.reducers.back().first = static_cast<int>(plan.reducers.size()) - 1;
  }
  place_partials(plan);
  return plan;
}

ReductionFinisher::ReductionFinisher(const ReductionPlan& plan, llvm::IRBuilder<>& builder,
                                     PhaseFunction& function)
    : plan_(plan),
      builder_(builder),
      function_(function),
      emitter_(plan.graph, space_, builder, function, 1) {}

Values ReductionFinisher::initial() {
  Values values;
  for (const Reducer& reducer : plan_.reducers) {
    for (int i = 0; i < reducer.components(); ++i) {
      const KernelNode node = plan_.graph.operand(*reducer.reduce, reducer.components() + i);
      llvm::Value* value = emitter_.value(node, {});
      values.push_back(
          emitter_.widen(emit_convert(builder_, value, node.dtype(), reducer.accumulators[at(i)])));
    }
  }
  return values;
}

Values ReductionFinisher::combine_all(const Values& a, const Values& b) {
  Values results;
  for (const Reducer& reducer : plan_.reducers) {
    const auto part = [&](const Values& all) {
      return Values(all.begin() + reducer.first,
                    all.begin() + reducer.first + reducer.components());
    };
    for (llvm::Value* value : combine(emitter_, builder_, reducer, part(a), part(b))) {
      results.push_back(value);
    }
  }
  return results;
}

Values ReductionFinisher::with_initial(const Values& totals) {
  return plan_.reducers.front().in_order ? totals : combine_all(initial(), totals);
}

void ReductionFinisher::finish(const Affine& kept_position, const Values& totals) {
  for (const Reducer& reducer : plan_.reducers) {
    for (int i = 0; i < reducer.components(); ++i) {
      const auto component = at(i);
      const ir::Shape& shape = reducer.reduce->shape().is_tuple()
                                   ? reducer.reduce->shape().elements()[component]
                                   : reducer.reduce->shape();
      llvm::Value* total = totals[at(reducer.first + i)];
      emitter_.bind_reduce(
          reducer.reduce, i, space_.delinearize(kept_position, shape.dims()),
          emit_convert(builder_, total, reducer.accumulators[component], shape.dtype()));
    }
  }
  Values results;
  for (const int root : plan_.final) {
    const KernelNode& node = plan_.graph.roots()[at(root)];
    results.push_back(emitter_.value(node, space_.delinearize(kept_position, node.dims())));
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const int root = plan_.final[i];
    emitter_.store(function_.output(root), kept_position, results[i],
                   plan_.graph.roots()[at(root)].dtype());
  }
}

}  // namespace plimsoll::jit
