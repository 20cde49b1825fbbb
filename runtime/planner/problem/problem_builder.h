// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "runtime/planner/problem/problem.h"

namespace plimsoll::planner {

// Puts a problem together op by op, new or from the ops of another one. What a problem has per op
// and per value is appended, and renumbered, here and nowhere else: a new field of Problem that
// goes with them is one more line in this class.
class ProblemBuilder {
 public:
  // All that a problem says of one op.
  struct Row {
    Op what;
    std::vector<ValueId> inputs, reads, outputs;
    std::vector<Reuse> reuse;
    int variant = -1;
  };

  // Nothing yet.
  ProblemBuilder() = default;
  // The values, views and results of `base`, which must outlive the builder; its ops are to be
  // copied.
  explicit ProblemBuilder(const Problem& base);

  // As far as it is built; `uses` and `deadline` are not.
  Problem& problem() { return problem_; }
  const Problem& problem() const { return problem_; }
  Value& value(ValueId v) { return problem_.values[v]; }
  // The number of the op that is added next.
  OpId next_op() const { return problem_.ops.end_id(); }

  // `view_of`: the value that it is a view of.
  ValueId add_value(Value value, ValueId view_of = {});

  // Who produces the outputs is for the caller to say.
  OpId add_op(const Op& op, std::span<const ValueId> inputs, std::span<const ValueId> reads,
              std::span<const ValueId> outputs, std::vector<Reuse> reuse = {}, int variant = -1);
  OpId add_op(const Op& op, std::initializer_list<ValueId> reads,
              std::initializer_list<ValueId> outputs, std::vector<Reuse> reuse = {});
  // One more result of the op that was added last.
  void add_output(ValueId v) { problem_.outputs.extend(v); }

  // Adds the base's op, whose results it produces from now on. What it waits for was copied before.
  OpId copy_op(OpId op);
  // The same after `change(Row&)`.
  template <typename F>
  OpId copy_op(OpId op, const F& change) {
    read(op);
    change(row_);
    return put(op, row_.what, row_.inputs, row_.reads, row_.outputs, std::move(row_.reuse),
               row_.variant);
  }
  // What became of the base's op; none: it was not copied.
  OpId new_op(OpId op) const { return new_op_[op]; }

  // Numbers what else names ops of the base, and finds what follows from the reads.
  Problem finish();

 private:
  void read(OpId op);
  OpId put(OpId op, Op what, std::span<const ValueId> inputs, std::span<const ValueId> reads,
           std::span<const ValueId> outputs, std::vector<Reuse> reuse, int variant);

  const Problem* base_ = nullptr;
  Problem problem_;
  IdVector<OpId, OpId> new_op_;  // per op of the base
  Row row_;
};

}  // namespace plimsoll::planner
