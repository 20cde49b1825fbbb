// SPDX-License-Identifier: Apache-2.0
#include "runtime/autograd/rules.h"
#include "runtime/base/index.h"

// The loss of participants that each have one of their own is the sum of all: what an array is to
// it comes together from all who have read what was made of it. So a sum over participants is a sum
// backwards, too, and the pieces of a gather are sums, of which each gets its own. All participants
// record the same, so these meet as the operations themselves did.
namespace plimsoll::autograd {
namespace {

// Of those results that have a gradient, which are the same everywhere.
struct Given {
  std::vector<NodeRef> gradients;
  std::vector<int> operands;
};

Given given(const RuleCall& call) {
  Given found;
  for (std::size_t i = 0; i < call.gradients.size(); ++i) {
    if (!call.gradients[i] || !call.wanted[i]) continue;
    found.gradients.push_back(call.gradients[i]);
    found.operands.push_back(static_cast<int>(i));
  }
  return found;
}

// Backwards the same participants meet.
trace::OpAttributes with_groups_of(const RuleCall& call) {
  trace::OpAttributes op;
  op.attributes.collective = call.op.attributes.collective;
  return op;
}

trace::OpAttributes sum_attributes(const RuleCall& call) {
  trace::OpAttributes op = with_groups_of(call);
  op.callee.kind = trace::Callee::Kind::combine;
  op.callee.combiner = ir::Opcode::add;
  return op;
}

bool is_sum(const RuleCall& call) { return call.op.callee.combiner == ir::Opcode::add; }

void give_back(const RuleCall& call, ir::Opcode opcode, const trace::OpAttributes& op) {
  const Given found = given(call);
  if (found.operands.empty()) return;
  const NodeRef result = call.e.op(opcode, found.gradients, op);
  for (std::size_t i = 0; i < found.operands.size(); ++i) {
    const bool single = found.operands.size() == 1;
    call.give(found.operands[i], single ? result : call.e.element(result, static_cast<int>(i)));
  }
}

}  // namespace

void all_reduce_rule(const RuleCall& call) {
  if (!is_sum(call)) return call.refuse("only sums over participants have a gradient");
  give_back(call, ir::Opcode::all_reduce, sum_attributes(call));
}

void all_gather_rule(const RuleCall& call) {
  trace::OpAttributes op = sum_attributes(call);
  op.attributes.dimensions = call.op.attributes.dimensions;
  give_back(call, ir::Opcode::reduce_scatter, op);
}

void reduce_scatter_rule(const RuleCall& call) {
  if (!is_sum(call)) return call.refuse("only sums over participants have a gradient");
  trace::OpAttributes op = with_groups_of(call);
  op.attributes.dimensions = call.op.attributes.dimensions;
  give_back(call, ir::Opcode::all_gather, op);
}

}  // namespace plimsoll::autograd
