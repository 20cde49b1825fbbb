// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/problem/problem_builder.h"

namespace plimsoll::planner {

ProblemBuilder::ProblemBuilder(const Problem& base) : base_(&base) {
  problem_.graph = base.graph;
  problem_.values = base.values;
  problem_.results = base.results;
  problem_.view_of = base.view_of;
  problem_.sliced = base.sliced;
  problem_.codings = base.codings;
  problem_.parameter_bytes = base.parameter_bytes;
  problem_.output_bytes = base.output_bytes;
  problem_.constant_bytes = base.constant_bytes;
  new_op_.resize(base.ops.size());
}

ValueId ProblemBuilder::add_value(Value value, ValueId view_of) {
  if (view_of >= 0) problem_.view_of.resize(problem_.values.size());
  if (view_of >= 0 || !problem_.view_of.empty()) problem_.view_of.push_back(view_of);
  return problem_.values.push_back(value);
}

OpId ProblemBuilder::add_op(const Op& op, std::span<const ValueId> inputs,
                            std::span<const ValueId> reads, std::span<const ValueId> outputs,
                            std::vector<Reuse> reuse, int variant) {
  problem_.inputs.push_row(inputs);
  problem_.reads.push_row(reads);
  problem_.outputs.push_row(outputs);
  problem_.reuse.push_back(std::move(reuse));
  problem_.variant.push_back(variant);
  return problem_.ops.push_back(op);
}

OpId ProblemBuilder::add_op(const Op& op, std::initializer_list<ValueId> reads,
                            std::initializer_list<ValueId> outputs, std::vector<Reuse> reuse) {
  const std::span<const ValueId> read(reads.begin(), reads.size());
  return add_op(op, read, read, {outputs.begin(), outputs.size()}, std::move(reuse));
}

OpId ProblemBuilder::copy_op(OpId op) {
  return put(op, base_->ops[op], base_->inputs[op], base_->reads[op], base_->outputs[op],
             base_->reuse[op], base_->variant[op]);
}

void ProblemBuilder::read(OpId op) {
  const auto take = [](std::span<const ValueId> from, std::vector<ValueId>& to) {
    to.assign(from.begin(), from.end());
  };
  row_.what = base_->ops[op];
  take(base_->inputs[op], row_.inputs);
  take(base_->reads[op], row_.reads);
  take(base_->outputs[op], row_.outputs);
  row_.reuse = base_->reuse[op];
  row_.variant = base_->variant[op];
}

OpId ProblemBuilder::put(OpId op, Op what, std::span<const ValueId> inputs,
                         std::span<const ValueId> reads, std::span<const ValueId> outputs,
                         std::vector<Reuse> reuse, int variant) {
  if (what.transfer >= 0) what.transfer = new_op_[what.transfer];
  const OpId id = add_op(what, inputs, reads, outputs, std::move(reuse), variant);
  for (const ValueId v : base_->outputs[op]) {
    if (v >= 0 && base_->values[v].producer == op) value(v).producer = id;
  }
  return new_op_[op] = id;
}

Problem ProblemBuilder::finish() {
  if (base_ != nullptr) {
    for (const ValueId v : base_->values.ids()) {
      OpId& overwritten = value(v).overwritten;
      if (overwritten != kNever) overwritten = new_op_[overwritten];
    }
  }
  problem_.uses = invert(problem_.reads, problem_.values.size());
  problem_.deadline = find_deadlines(problem_);
  return std::move(problem_);
}

}  // namespace plimsoll::planner
