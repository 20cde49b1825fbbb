// SPDX-License-Identifier: Apache-2.0
#include "jit/graph/graph.h"

#include <fmt/core.h>
#include <algorithm>

#include "jit/graph/reduction_order.h"
#include "jit/graph/row_plan.h"
#include "runtime/base/index.h"
#include "runtime/ir/elided_constant.h"

namespace plimsoll::jit {
namespace {

using ir::Instruction;
using ir::LoopRole;
using ir::Opcode;

bool is_loop_operation(const Instruction& instruction) {
  const LoopRole role = ir::op_info(instruction.opcode()).loop_role;
  if (role == LoopRole::never || role == LoopRole::reduced) return false;
  if (role == LoopRole::fetched && instruction.attributes().gather == nullptr) return false;
  if (!instruction.shape().is_array()) return false;
  for (const Instruction* operand : instruction.operands()) {
    if (!operand->shape().is_array()) return false;
  }
  // Start indices come one scalar per dimension.
  const bool slices = instruction.opcode() == Opcode::dynamic_slice;
  if (slices || instruction.opcode() == Opcode::dynamic_update_slice) {
    const int first = slices ? 1 : 2;
    if (instruction.operand_count() != first + instruction.operand(0)->shape().rank()) return false;
    for (int i = first; i < instruction.operand_count(); ++i) {
      if (!instruction.operand(i)->shape().is_scalar()) return false;
    }
  }
  return true;
}

}  // namespace

Status refuse(const Instruction& instruction, std::string_view why) {
  return unimplemented("compile '" + instruction.name() + "': " +
                       std::string(ir::to_string(instruction.opcode())) + " " + std::string(why));
}

Status check_scalar_computation(const Instruction& instruction) {
  const ir::Computation& computation = *instruction.to_apply();
  const Instruction* culprit = nullptr;
  for (const auto& inner : computation.instructions()) {
    const Opcode opcode = inner->opcode();
    if (opcode == Opcode::tuple && inner.get() == computation.root()) continue;
    if (inner->shape().is_scalar() &&
        (opcode == Opcode::parameter || opcode == Opcode::constant || ir::is_elementwise(opcode))) {
      continue;
    }
    // What a loop takes comes before it.
    if (culprit == nullptr || culprit->opcode() == Opcode::tuple) culprit = inner.get();
  }
  if (culprit != nullptr) {
    return refuse(
        instruction,
        fmt::format("applies '{}', in which {} '{}' is no operation on scalars (loops and "
                    "arrays have to be outside of it)",
                    computation.name(), ir::to_string(culprit->opcode()), culprit->name()));
  }
  if (computation.instruction_count() <= kMaxInstructions && computation.root() != nullptr) {
    return ok_status();
  }
  return refuse(instruction, fmt::format("applies '{}', which has more than {} instructions",
                                         computation.name(), kMaxInstructions));
}

KernelNode KernelGraph::node_of(const Instruction& instruction) const {
  KernelNode node;
  node.instruction = &instruction;
  node.shape = &instruction.shape();
  if (instruction.opcode() == Opcode::parameter) {
    node.input = static_cast<int>(instruction.attributes().parameter_number);
  } else if (instruction.opcode() == Opcode::get_tuple_element) {
    node.instruction = instruction.operand(0);
    node.component = static_cast<int>(instruction.attributes().tuple_index);
  } else if (instruction.opcode() == Opcode::constant) {
    const auto it = std::find(tables_.begin(), tables_.end(), &instruction);
    if (it != tables_.end()) {
      node.input =
          static_cast<int>(inputs_.size() + static_cast<std::size_t>(it - tables_.begin()));
    }
  }
  return node;
}

KernelNode KernelGraph::operand(const Instruction& user, int i) const {
  if (fused_) return node_of(*user.operand(i));
  KernelNode node;
  node.input = i;
  node.shape = inputs_[at(i)];
  return node;
}

Result<KernelGraph> KernelGraph::create(const Instruction& instruction) {
  switch (instruction.opcode()) {
    case Opcode::parameter:
    case Opcode::tuple:
    case Opcode::get_tuple_element:
      return refuse(instruction, "only names values");
    default:
      break;
  }
  KernelGraph graph;
  graph.instruction_ = &instruction;
  graph.fused_ = instruction.opcode() == Opcode::fusion;
  for (const Instruction* operand : instruction.operands()) {
    if (!operand->shape().is_array()) return refuse(instruction, "has a tuple operand");
    graph.inputs_.push_back(&operand->shape());
  }
  if (graph.fused_ && instruction.called_computations().size() != 1) {
    return refuse(instruction, "calls no computation");
  }
  const Instruction& root = graph.fused_ ? *instruction.to_apply()->root() : instruction;
  std::vector<const Instruction*> elements;
  if (root.opcode() == Opcode::tuple) {
    elements.assign(root.operands().begin(), root.operands().end());
  } else {
    elements.push_back(&root);
  }
  // The tables are numbered before any node is made, because nodes of constants refer to them.
  const auto add_table = [&](const Instruction& candidate) {
    if (candidate.opcode() == Opcode::constant && candidate.attributes().literal != nullptr &&
        !candidate.attributes().literal->is_elided() &&
        !candidate.attributes().literal->is_splat() && candidate.shape().element_count() > 0) {
      graph.tables_.push_back(&candidate);
    }
  };
  if (graph.fused_) {
    if (instruction.to_apply()->instruction_count() > kMaxInstructions) {
      return refuse(
          instruction,
          fmt::format("has more than {} instructions; make it several fusions", kMaxInstructions));
    }
    for (const auto& inner : instruction.to_apply()->instructions()) add_table(*inner);
  } else {
    add_table(instruction);
  }
  for (const Instruction* element : elements) {
    if (element->shape().is_array()) {
      graph.roots_.push_back(graph.node_of(*element));
    } else if (element->opcode() == Opcode::reduce && element->shape().is_tuple()) {
      for (std::size_t i = 0; i < element->shape().elements().size(); ++i) {
        KernelNode node;
        node.instruction = element;
        node.component = static_cast<int>(i);
        node.shape = &element->shape().elements()[i];
        graph.roots_.push_back(node);
      }
    } else {
      return refuse(*element, "has no array result");
    }
  }
  PLIMSOLL_RETURN_IF_ERROR(graph.collect());
  graph.mark_after_reduces();
  PLIMSOLL_RETURN_IF_ERROR(graph.check_roots());
  const Status one_sweep = graph.check_reduces();
  if (!one_sweep.ok()) {
    const auto rows = make_row_plan(graph, RowLayout::loops);
    if (!rows.ok()) return rows.status().with_context(one_sweep.message());
    graph.is_row_fusion_ = true;
  }
  return graph;
}

Status KernelGraph::collect() {
  std::unordered_set<const Instruction*> seen;
  struct Frame {
    const Instruction* instruction;
    int next;
  };
  std::vector<Frame> stack;
  const auto visit = [&](const KernelNode& node) {
    if (!node.is_input() && seen.insert(node.instruction).second) {
      stack.push_back({node.instruction, 0});
    }
  };
  for (const KernelNode& root : roots_) {
    visit(root);
    while (!stack.empty()) {
      const Instruction& top = *stack.back().instruction;
      if (stack.back().next == 0) {
        if (top.opcode() == Opcode::reduce) {
          PLIMSOLL_RETURN_IF_ERROR(check_scalar_computation(top));
          for (const Instruction* operand : top.operands()) {
            if (!operand->shape().is_array()) return refuse(top, "has a tuple operand");
          }
        } else if (!is_loop_operation(top)) {
          return refuse(top, "is not a loop operation");
        }
        if (top.opcode() == Opcode::constant &&
            (top.attributes().literal == nullptr || top.attributes().literal->is_elided())) {
          return ir::elided_constant(top);
        }
      }
      if (stack.back().next < top.operand_count()) {
        visit(operand(top, stack.back().next++));
        continue;
      }
      instructions_.push_back(&top);
      if (top.opcode() == Opcode::reduce) reduces_.push_back(&top);
      stack.pop_back();
    }
  }
  return ok_status();
}

void KernelGraph::mark_after_reduces() {
  for (const Instruction* instruction : instructions_) {
    bool depends = instruction->opcode() == Opcode::reduce;
    for (int i = 0; i < instruction->operand_count(); ++i) {
      depends = depends || follows_reduce(operand(*instruction, i));
    }
    if (depends) after_reduce_.insert(instruction);
  }
}

// One sweep over the elements of all roots: only an update is stored in a sweep of its own.
Status KernelGraph::check_roots() const {
  std::int64_t count = -1;
  for (const KernelNode& root : roots_) {
    const bool is_update =
        !root.is_input() && root.instruction->opcode() == Opcode::dynamic_update_slice;
    if (!reduces_.empty() || is_update) continue;
    if (count < 0) count = root.shape->element_count();
    if (root.shape->element_count() != count) {
      return refuse(*instruction_, "has results with different numbers of elements");
    }
  }
  return ok_status();
}

// One sweep over the operands of all reduces.
Status KernelGraph::check_reduces() const {
  if (reduces_.empty()) return ok_status();
  const Instruction& first = *reduces_.front();
  const ir::Dims& dims = operand(first, 0).dims();
  auto reduced = first.attributes().dimensions;
  std::sort(reduced.begin(), reduced.end());
  for (const Instruction* reduce : reduces_) {
    for (int i = 0; i < reduce->operand_count(); ++i) {
      if (follows_reduce(operand(*reduce, i))) {
        return refuse(*reduce, "depends on another reduce of its fusion");
      }
    }
    auto own = reduce->attributes().dimensions;
    std::sort(own.begin(), own.end());
    if (operand(*reduce, 0).dims() != dims || own != reduced) {
      return refuse(*reduce, "has another shape than the first reduce of its fusion");
    }
    // Each kind has its own order of elements, which fusion must not change.
    if (reduces_.size() > 1 &&
        must_run_in_order(*reduce->to_apply()) != must_run_in_order(*first.to_apply())) {
      return refuse(*reduce, "runs in another order than the first reduce of its fusion");
    }
  }
  for (const Instruction* instruction : instructions_) {
    if (instruction->opcode() == Opcode::gather && after_reduce_.contains(instruction)) {
      return refuse(*instruction, "reads at places that a reduce of its fusion gives");
    }
  }
  const ir::Shape& result =
      first.shape().is_tuple() ? first.shape().elements().front() : first.shape();
  const std::int64_t results = result.element_count();
  for (const KernelNode& root : roots_) {
    const bool epilogue = follows_reduce(root);
    if (epilogue && root.shape->element_count() != results) {
      return refuse(first, "has an epilogue with another number of elements");
    }
    if (!epilogue && root.dims() != dims && root.shape->element_count() != results) {
      return refuse(first, "shares a fusion with a value of other dims");
    }
  }
  return ok_status();
}

}  // namespace plimsoll::jit
