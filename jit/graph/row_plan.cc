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
  if (reduce.operand_count() != 2) return false;
  for (const Opcode opcode : {Opcode::add, Opcode::multiply, Opcode::maximum, Opcode::minimum,
                              Opcode::and_, Opcode::or_, Opcode::xor_}) {
    if (ir::is_binary_computation(*reduce.to_apply(), opcode)) return true;
  }
  return false;
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
      if (instruction->opcode() == Opcode::reduce) {
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
        const auto& all = graph_.reduces();
        plan_.reduces[s].push_back(
            static_cast<int>(std::find(all.begin(), all.end(), reduce) - all.begin()));
        const KernelNode operand = graph_.operand(*reduce, 0);
        PLIMSOLL_RETURN_IF_ERROR(visit(operand, plan_.own_index(operand.dims())));
        const KernelNode initial = graph_.operand(*reduce, 1);
        if (depth_of(initial) > 0) return refuse(*reduce, "starts from another one's result");
        PLIMSOLL_RETURN_IF_ERROR(visit(initial, {}));
      }
    }
    plan_.stores.resize(reduces_.size() + 1);
    for (std::size_t i = 0; i < graph_.roots().size(); ++i) {
      const KernelNode& root = graph_.roots()[i];
      const std::int64_t count = root.shape->element_count();
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

  Status visit(const KernelNode& node, const Index& index) {
    if (!seen_.insert({node.is_input() ? nullptr : node.instruction, node.input, index}).second) {
      return ok_status();
    }
    if (node.is_input()) {
      plan_.inputs.push_back({node, index});
      return ok_status();
    }
    const Instruction& instruction = *node.instruction;
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

Index RowPlan::own_index(const ir::Dims& dims) {
  std::int64_t count = 1;
  for (const std::int64_t d : dims) count *= d;
  if (count == shape.rows) return space.delinearize(row, dims);
  return space.delinearize(space.add(space.scale(row, shape.minor), lane), dims);
}

Result<RowPlan> make_row_plan(const KernelGraph& graph, RowLayout layout) {
  const Instruction& first = *graph.reduces().front();
  const ir::Dims& dims = graph.operand(first, 0).dims();
  const auto shape = row_shape(dims, first.attributes().dimensions);
  if (!shape) return refuse(first, "does not reduce rows");
  RowPlan plan{graph, *shape, ReductionShape::of(ir::Dims{shape->rows, shape->minor}, {1}, false),
               {},    {},     {},
               {},    {},     {},
               {},    {},     {},
               false};
  plan.row = plan.space.add_loop(shape->rows, 1);
  plan.lane = plan.space.add_loop(shape->minor, layout == RowLayout::loops ? 2 : 1);
  PLIMSOLL_RETURN_IF_ERROR(RowTracer(plan).run());
  return plan;
}

}  // namespace plimsoll::jit
