// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/passes/loops/loop_state.h"
#include "runtime/passes/loops/residual_pair.h"

namespace plimsoll::passes {

// A round of a forward loop and the round of its backward loop that reads the same slices, as one
// computation without slices: what the backward body reads of a residual is the value that the
// forward body stacks. A pass that knows nothing of loops can so rewrite what lies in both, such as
// an attention and its gradient; `split` takes it apart into two loops again, in which whatever the
// second part then reads of the first is stacked.
//
// Example: forward `e = exp(x); y = f(e)`, which stacks e; backward `dx = dy * slice(e)`. Joined:
// `e = exp(x); y = f(e); marker; dx = dy * e`.
class JoinedBodies {
 public:
  explicit JoinedBodies(const ResidualPair& pair) : pair_(pair) {}
  JoinedBodies(const JoinedBodies&) = delete;
  JoinedBodies& operator=(const JoinedBodies&) = delete;

  // The joined computation, which the entry does not reach. Null where a body has control edges.
  ir::Computation* join();
  // Two loops of what the joined computation has become by insertions and replaced operands, in the
  // place of the pair's loops. False, and nothing is changed, where something would have to be
  // stacked that can't be.
  bool split();

 private:
  bool copy_forward();
  bool copy_backward();
  ir::Instruction* parameter_for(const ir::Instruction& element, const ir::Instruction& loop);

  bool still_holds(const ir::Instruction& original);
  bool has_changed(const ir::Instruction& value, int operand);
  const ir::Instruction* own_in_backward(const ir::Instruction& value);
  bool is_known(const ir::Instruction& value);
  const Residual* residual_of(const ir::Instruction& value) const;
  bool find_stacked();
  // In the loop's body: all of a part of the joined computation, original or new.
  template <typename Operand>
  void rebuild(LoopState& loop, const std::vector<ir::Instruction*>& part,
               const std::unordered_map<const ir::Instruction*, const ir::Instruction*>& originals,
               const Operand& operand_of);
  ir::Instruction* in_backward(const ir::Instruction& value, LoopState& backward);

  const ResidualPair& pair_;
  ir::Computation* joined_ = nullptr;
  const ir::Instruction* marker_ = nullptr;  // between the two parts
  std::vector<int> forward_results_;         // leaves that the root's first operands are of
  std::unordered_map<const ir::Instruction*, ir::Instruction*> copies_;
  std::unordered_map<const ir::Instruction*, ir::Instruction*> invariants_;  // by where they start
  // Of the first part: what the backward body computes as well.
  std::unordered_map<const ir::Instruction*, const ir::Instruction*> merged_;
  // What a joined instruction is a copy of, in either body, and the operands that it had.
  std::unordered_map<const ir::Instruction*, const ir::Instruction*> forward_, backward_;
  std::unordered_map<const ir::Instruction*, std::vector<ir::Instruction*>> operands_;

  std::vector<ir::Instruction*> first_, second_;  // the parts when they are split
  std::unordered_set<const ir::Instruction*> in_first_;
  std::unordered_set<const ir::Instruction*> left_;  // of the forward body: still in first_
  std::unordered_map<const ir::Instruction*, bool> known_;
  std::unordered_map<const ir::Instruction*, bool> holds_;  // of the backward body
  std::vector<const ir::Instruction*> stacked_;             // of the first part, for the second
  std::unordered_map<const ir::Instruction*, int> leaf_;    // of the backward state
  std::unordered_map<const ir::Instruction*, ir::Instruction*> at_;  // in the body that is made
  ir::Instruction* slice_ = nullptr;  // of the backward body: the slice of this round
};

}  // namespace plimsoll::passes
