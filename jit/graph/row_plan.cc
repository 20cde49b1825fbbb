// SPDX-License-Identifier: Apache-2.0
#include "jit/graph/row_plan.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "runtime/base/index.h"
#include "runtime/ir/shapes/builder.h"

namespace plimsoll::jit {
namespace {

using ir::Instruction;
using ir::Opcode;

bool is_plain_reduce(const Instruction& reduce) {
  return reduce.operand_count() == 2 && ir::plain_operation(*reduce.to_apply()).has_value();
}

// One element from the operands' at the same place, or from none at all.
bool keeps_place(const Instruction& instruction) {
  switch (instruction.opcode()) {
    case Opcode::broadcast:
    case Opcode::reshape:
    case Opcode::bitcast:
      return true;
    default:
      return ir::is_elementwise(instruction.opcode());
  }
}

// Follows every value from the roots and reduces to the inputs, at the index where it is read.
//
// The compiler's half of row_rules.cc (passes/fusion): that one decides whether bodies are joined,
// this one lays the joined body out, and refuses what it can't, whoever made it. Sweep number s
// holds the reduces of depth s (reduces on the longest way to an input); after it, the values of
// depth s + 1 that have one element a row (`row_values`) are known and computed once; the last
// sweep stores.
//
// Example, softmax: sweep 0 takes the maximum of a row; row_values[0] is empty. Sweep 1 sums exp(x
// - max). The last sweep stores exp(x - max) / sum: exp is computed again, which is cheaper than to
// keep a row of it.
class RowTracer {
 public:
  explicit RowTracer(RowPlan& plan) : plan_(plan), graph_(plan.graph) {}

  Status run() {
    for (const Instruction* instruction : graph_.instructions()) {
      int depth = 0;
      for (int i = 0; i < instruction->operand_count(); ++i) {
        depth = std::max(depth, depth_of(graph_.operand(*instruction, i)));
      }
      if (follows_column(*instruction)) {
        of_columns_.insert(instruction);
      } else if (reduces_columns(*instruction)) {
        PLIMSOLL_RETURN_IF_ERROR(check_columns(*instruction));
        plan_.columns.push_back(number_of(*instruction));
        of_columns_.insert(instruction);
      } else if (instruction->opcode() == Opcode::reduce) {
        PLIMSOLL_RETURN_IF_ERROR(check_reduce(*instruction));
        sweep(static_cast<std::size_t>(depth)).push_back(instruction);
        ++depth;
      }
      depths_[instruction] = depth;
    }
    plan_.reduces.resize(reduces_.size());
    plan_.row_values.resize(reduces_.size());
    for (std::size_t s = 0; s < reduces_.size(); ++s) {
      for (const Instruction* reduce : reduces_[s]) {
        plan_.reduces[s].push_back(number_of(*reduce));
        PLIMSOLL_RETURN_IF_ERROR(visit_reduce(*reduce));
      }
    }
    for (const int column : plan_.columns) {
      PLIMSOLL_RETURN_IF_ERROR(visit_reduce(*graph_.reduces()[at(column)]));
    }
    plan_.stores.resize(reduces_.size() + 1);
    for (std::size_t i = 0; i < graph_.roots().size(); ++i) {
      const KernelNode& root = graph_.roots()[i];
      const std::int64_t count = root.shape->element_count();
      if (is_of_columns(root)) {
        plan_.column_roots.push_back(static_cast<int>(i));
        PLIMSOLL_RETURN_IF_ERROR(visit_column(root, plan_.column_index(root.dims())));
        continue;
      }
      if (plan_.is_full(root)) {
        plan_.stores.back().push_back(static_cast<int>(i));
      } else if (count == plan_.shape.rows) {
        plan_.row_roots.push_back(static_cast<int>(i));
      } else {
        return refuse(graph_.instruction(), "has a result of neither the rows' nor the full size");
      }
      PLIMSOLL_RETURN_IF_ERROR(visit(root, plan_.own_index(root.dims())));
    }
    return ok_status();
  }

 private:
  std::vector<const Instruction*>& sweep(std::size_t s) {
    if (reduces_.size() <= s) reduces_.resize(s + 1);
    return reduces_[s];
  }

  int number_of(const Instruction& reduce) const {
    const auto& all = graph_.reduces();
    return static_cast<int>(std::find(all.begin(), all.end(), &reduce) - all.begin());
  }

  bool reduces_columns(const Instruction& instruction) const {
    return instruction.opcode() == Opcode::reduce &&
           column_shape(graph_.operand(instruction, 0).dims(),
                        instruction.attributes().dimensions) == plan_.shape;
  }

  bool is_of_columns(const KernelNode& node) const {
    return !node.is_input() && of_columns_.contains(node.instruction);
  }

  bool follows_column(const Instruction& instruction) const {
    for (int i = 0; i < instruction.operand_count(); ++i) {
      if (is_of_columns(graph_.operand(instruction, i))) return true;
    }
    return false;
  }

  int depth_of(const KernelNode& node) const {
    const auto it = node.is_input() ? depths_.end() : depths_.find(node.instruction);
    return it == depths_.end() ? 0 : it->second;
  }

  Status check_reduce(const Instruction& reduce) {
    if (!is_plain_reduce(reduce)) return refuse(reduce, "is not a plain one of a row fusion");
    if (row_shape(graph_.operand(reduce, 0).dims(), reduce.attributes().dimensions) !=
        plan_.shape) {
      return refuse(reduce, "cuts other rows than the first one of its fusion");
    }
    return ok_status();
  }

  // A column's lanes are told apart by rows, and its sums stand on the stack.
  Status check_columns(const Instruction& reduce) {
    if (!is_plain_reduce(reduce)) return refuse(reduce, "is not a plain one of a row fusion");
    if (plan_.shape.rows < 2 || plan_.cut.lanes <= kShortRowLanes) {
      return refuse(reduce, "is along the columns of short rows");
    }
    column_bytes_ += plan_.column_cut().lanes * plan_.shape.minor *
                     std::max(4, ir::dtype_bytes(reduce.shape().dtype()));
    if (column_bytes_ <= kColumnSumBytes) return ok_status();
    return refuse(reduce, "is along too many columns for a row fusion");
  }

  Status visit_reduce(const Instruction& reduce) {
    const KernelNode operand = graph_.operand(reduce, 0), initial = graph_.operand(reduce, 1);
    if (depth_of(initial) > 0) return refuse(reduce, "starts from another one's result");
    PLIMSOLL_RETURN_IF_ERROR(visit(operand, plan_.own_index(operand.dims())));
    return visit(initial, {});
  }

  // What follows from columns' results is computed when all rows are done.
  Status visit_column(const KernelNode& node, const Index& index) {
    if (!is_of_columns(node)) return visit_beside_columns(node);
    const Instruction& instruction = *node.instruction;
    const bool is_reduce = instruction.opcode() == Opcode::reduce;
    if ((!is_reduce && !keeps_place(instruction)) || index != plan_.column_index(node.dims()) ||
        node.shape->element_count() != plan_.shape.minor) {
      return refuse(instruction, "reads a column's results at another place");
    }
    if (is_reduce) return ok_status();
    for (int i = 0; i < instruction.operand_count(); ++i) {
      PLIMSOLL_RETURN_IF_ERROR(
          visit_column(graph_.operand(instruction, i),
                       operand_index(plan_.space, graph_, instruction, i, index)));
    }
    return ok_status();
  }

  Status visit_beside_columns(const KernelNode& node) {
    if (node.is_input() || !beside_columns_.insert(node.instruction).second) return ok_status();
    const Instruction& instruction = *node.instruction;
    if (depth_of(node) > 0 || instruction.opcode() == Opcode::gather ||
        instruction.opcode() == Opcode::dynamic_update_slice) {
      return refuse(instruction, "is read with the results of columns");
    }
    for (int i = 0; i < instruction.operand_count(); ++i) {
      PLIMSOLL_RETURN_IF_ERROR(visit_beside_columns(graph_.operand(instruction, i)));
    }
    return ok_status();
  }

  Status visit(const KernelNode& node, const Index& index) {
    if (!seen_.insert({node.is_input() ? nullptr : node.instruction, node.input, index}).second) {
      return ok_status();
    }
    if (node.is_input()) {
      plan_.inputs.push_back({node, index});
      return ok_status();
    }
    const Instruction& instruction = *node.instruction;
    if (is_of_columns(node)) return refuse(instruction, "is of columns and read within rows");
    // Their operands have indices of their own.
    if (instruction.opcode() == Opcode::dynamic_update_slice ||
        instruction.opcode() == Opcode::gather) {
      return refuse(instruction, "shares a fusion with rows");
    }
    const int depth = depth_of(node);
    const bool is_reduce = instruction.opcode() == Opcode::reduce;
    if (depth > 0) {
      const std::int64_t count = node.shape->element_count();
      if ((!is_reduce && !keeps_place(instruction)) ||
          (count != plan_.shape.rows && !plan_.is_full(node)) ||
          index != plan_.own_index(node.dims())) {
        return refuse(instruction, "reads a row's results at another place");
      }
    }
    if (is_reduce) return ok_status();
    for (int i = 0; i < instruction.operand_count(); ++i) {
      PLIMSOLL_RETURN_IF_ERROR(visit(graph_.operand(instruction, i),
                                     operand_index(plan_.space, graph_, instruction, i, index)));
    }
    if (depth > 0 && !plan_.is_full(node)) {
      plan_.row_values[at(depth) - 1].push_back({node, index});
    }
    return ok_status();
  }

  RowPlan& plan_;
  const KernelGraph& graph_;
  std::unordered_map<const Instruction*, int> depths_;  // reduces on the longest way to an input
  std::vector<std::vector<const Instruction*>> reduces_;
  std::unordered_set<const Instruction*> of_columns_, beside_columns_;
  std::int64_t column_bytes_ = 0;
  std::set<std::tuple<const Instruction*, int, Index>> seen_;
};

}  // namespace

std::optional<RowShape> row_shape(const ir::Dims& dims,
                                  const std::vector<std::int64_t>& reduced_dims) {
  RowShape shape{1, 1};
  for (int d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    if (std::find(reduced_dims.begin(), reduced_dims.end(), d) != reduced_dims.end()) {
      shape.minor *= dims[d];
    } else if (shape.minor > 1) {
      return std::nullopt;
    } else {
      shape.rows *= dims[d];
    }
  }
  if (shape.minor < 2 || shape.rows < 1) return std::nullopt;
  return shape;
}

std::optional<RowShape> column_shape(const ir::Dims& dims,
                                     const std::vector<std::int64_t>& reduced_dims) {
  std::vector<std::int64_t> kept;
  for (int d = 0; d < dims.size(); ++d) {
    if (std::find(reduced_dims.begin(), reduced_dims.end(), d) == reduced_dims.end()) {
      kept.push_back(d);
    }
  }
  return row_shape(dims, kept);
}

Index RowPlan::own_index(const ir::Dims& dims) {
  std::int64_t count = 1;
  for (const std::int64_t d : dims) count *= d;
  if (count == shape.rows) return space.delinearize(row, dims);
  return space.delinearize(space.add(space.scale(row, shape.minor), lane), dims);
}

Result<RowPlan> make_row_plan(const KernelGraph& graph, RowLayout layout) {
  std::optional<RowShape> shape;
  for (const Instruction* reduce : graph.reduces()) {
    shape = row_shape(graph.operand(*reduce, 0).dims(), reduce->attributes().dimensions);
    if (shape) break;
  }
  if (!shape) return refuse(*graph.reduces().front(), "does not reduce rows");
  RowPlan plan{graph, *shape, ReductionShape::of(ir::Dims{shape->rows, shape->minor}, {1}, false),
               {},    {},     {},
               {},    {},     {},
               {},    {},     {},
               {},    {},     false};
  plan.row = plan.space.add_loop(shape->rows, 1);
  plan.lane = plan.space.add_loop(shape->minor, layout == RowLayout::loops ? 2 : 1);
  PLIMSOLL_RETURN_IF_ERROR(RowTracer(plan).run());
  return plan;
}

}  // namespace plimsoll::jit
