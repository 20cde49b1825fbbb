// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <unordered_set>
#include <vector>

#include "jit/graph/index_space.h"
#include "runtime/base/status.h"
#include "runtime/ir/module.h"

namespace plimsoll::jit {

// One array value of a kernel: an input, an instruction, or one result of a reduce.
struct KernelNode {
  const ir::Instruction* instruction = nullptr;  // null for inputs of an unfused instruction
  int input = -1;                                // >= 0: the kernel's input of this number
  int component = 0;                             // of a reduce
  const ir::Shape* shape = nullptr;              // an array

  bool is_input() const { return input >= 0; }
  bool is_reduce() const { return !is_input() && instruction->opcode() == ir::Opcode::reduce; }
  ir::DType dtype() const { return shape->dtype(); }
  const ir::Dims& dims() const { return shape->dims(); }
};

// What one kernel computes: an instruction seen as a graph whose leaves are the operands and
// constants. A fusion is its computation; any other instruction is a graph of one node, whose
// operands are all distinct inputs. Refers to the instruction; do not outlive it.
class KernelGraph {
 public:
  // UNIMPLEMENTED, with the reason, when the compiler has no kernel for the instruction.
  static Result<KernelGraph> create(const ir::Instruction& instruction);

  const ir::Instruction& instruction() const { return *instruction_; }
  // One per array leaf of the result.
  const std::vector<KernelNode>& roots() const { return roots_; }
  // One per operand.
  const std::vector<const ir::Shape*>& inputs() const { return inputs_; }
  KernelNode operand(const ir::Instruction& user, int i) const;
  // The reduces that the roots depend on, in a fixed order; none in a loop kernel.
  const std::vector<const ir::Instruction*>& reduces() const { return reduces_; }
  // Constants of more than one distinct element: they become inputs after the operands, in this
  // order.
  const std::vector<const ir::Instruction*>& tables() const { return tables_; }
  // True when the value is computed from the result of a reduce.
  bool follows_reduce(const KernelNode& node) const {
    return !node.is_input() && after_reduce_.contains(node.instruction);
  }
  // True where reduces feed each other, or results of the full size follow from one: rows, each
  // computed from beginning to end (row_plan.h).
  bool is_row_fusion() const { return is_row_fusion_; }
  // All instructions the roots need (inputs left out), operands first.
  const std::vector<const ir::Instruction*>& instructions() const { return instructions_; }

 private:
  KernelNode node_of(const ir::Instruction& instruction) const;
  Status collect();
  void mark_after_reduces();
  Status check_roots() const;
  Status check_reduces() const;

  const ir::Instruction* instruction_ = nullptr;
  bool fused_ = false;
  bool is_row_fusion_ = false;
  std::vector<KernelNode> roots_;
  std::vector<const ir::Shape*> inputs_;
  std::vector<const ir::Instruction*> reduces_, tables_, instructions_;
  std::unordered_set<const ir::Instruction*> after_reduce_;
};

// UNIMPLEMENTED: what of `instruction` the compiler does not take, and why.
Status refuse(const ir::Instruction& instruction, std::string_view why);

// Whether what a reduction applies is a computation on scalars that can be inlined into it.
Status check_scalar_computation(const ir::Instruction& instruction);

// `x` lies in `allowed`.
struct Condition {
  Affine x;
  Range allowed;
};

// The index of operand `i` that result element `index` of `user` reads (elementwise and movement
// operations, and the first operand of a gather). Always inside the operand, also where another
// operand is chosen.
Index operand_index(IndexSpace& space, const KernelGraph& graph, const ir::Instruction& user, int i,
                    const Index& index);
// When operand `i` of a concatenate, pad (0) or dynamic-update-slice (1) is the one chosen;
// conditions that always hold are left out.
std::vector<Condition> operand_conditions(IndexSpace& space, const KernelGraph& graph,
                                          const ir::Instruction& user, int i, const Index& index);
// Whether no index that the loops reach has operand `i` chosen.
bool is_never_chosen(IndexSpace& space, const KernelGraph& graph, const ir::Instruction& user,
                     int i, const Index& index);
// The clamped start of a dynamic-slice or dynamic-update-slice in dimension `dimension`.
Affine dynamic_start(IndexSpace& space, const ir::Instruction& user, int dimension,
                     const ir::Dims& operand_dims);

// Limits on what is compiled as one kernel.
inline constexpr int kMaxInstructions = 1024;
inline constexpr int kMaxEmittedValues = 30000;

}  // namespace plimsoll::jit
