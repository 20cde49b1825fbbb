// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "runtime/autograd/expression.h"
#include "runtime/autograd/gathered.h"
#include "runtime/base/index.h"
#include "runtime/trace/record/attribute_words.h"

namespace plimsoll::autograd {

// What a rule is given: the operation, the gradient of each of its results (one, but for tuples;
// empty: zero), and for which operands a gradient is wanted. It fills `results`, one per operand;
// what it leaves empty is zero.
struct RuleCall {
  Expression& e;
  Gathered& gathered;
  Node& node;
  const trace::OpAttributes& op;
  const std::vector<NodeRef>& gradients;
  const std::vector<bool>& wanted;
  std::vector<NodeRef>& results;

  const NodeRef& g() const { return gradients[0]; }
  NodeRef operand(int i) const { return gathered.to_read(node.operand(i)); }
  NodeRef result() const { return e.ref(&node); }
  bool wants(int i) const { return wanted[at(i)]; }
  void give(int i, NodeRef gradient) const {
    if (wants(i)) results[at(i)] = std::move(gradient);
  }
  // UNIMPLEMENTED, naming the operation.
  void refuse(std::string_view why) const;
};

using Rule = void (*)(const RuleCall&);

// The rule of an operation, or null when it has none.
Rule find_rule(ir::Opcode opcode);

// The rule of a recorded loop or branch (Node::control). It may record a loop that stacks more in
// the place of the node, whose elements then are that one's.
Rule control_rule(const Node& node);

void unary_rule(const RuleCall&);
void binary_rule(const RuleCall&);
void select_rule(const RuleCall&);
void clamp_rule(const RuleCall&);
void convert_rule(const RuleCall&);
void pass_rule(const RuleCall&);  // the gradient goes through unchanged
void zero_rule(const RuleCall&);  // piecewise constant
void broadcast_rule(const RuleCall&);
void reshape_rule(const RuleCall&);
void transpose_rule(const RuleCall&);
void slice_rule(const RuleCall&);
void dynamic_slice_rule(const RuleCall&);
void dynamic_update_slice_rule(const RuleCall&);
void concatenate_rule(const RuleCall&);
void pad_rule(const RuleCall&);
void reverse_rule(const RuleCall&);
void dot_rule(const RuleCall&);
void convolution_rule(const RuleCall&);
void reduce_rule(const RuleCall&);
void reduce_window_rule(const RuleCall&);
void select_and_scatter_rule(const RuleCall&);
void gather_rule(const RuleCall&);
void scatter_rule(const RuleCall&);
void sort_rule(const RuleCall&);
void all_reduce_rule(const RuleCall&);
void all_gather_rule(const RuleCall&);
void reduce_scatter_rule(const RuleCall&);

}  // namespace plimsoll::autograd
