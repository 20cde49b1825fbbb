// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "benchmarks/graphs/tape.h"
#include "runtime/ir/module.h"

namespace plimsoll::graphs {

// A while loop of a fixed number of rounds under construction, whose state's elements are added as
// they turn out to be needed. Element 0 is whatever the condition counts: it is added first, and
// the loop runs while it is below the number of rounds.
class Loop {
 public:
  using Node = Tape::Node;

  Loop(ir::Module& module, std::string_view name);

  ir::Computation& body() const { return *body_; }
  // Adds an element of the state; gives what the body reads of it.
  Node add(Node start);
  // The number of elements so far.
  std::size_t size() const { return initial_.size(); }
  Node initial(std::size_t element) const { return initial_[element]; }
  void set_initial(std::size_t element, Node start) { initial_[element] = start; }
  // What the body leaves in an element; without it, the element stays as it was.
  void set_next(std::size_t element, Node value) { next_[element] = value; }
  // Ends the body and appends the loop to `tape`'s computation.
  Node finish(Tape& tape, std::int64_t rounds);

 private:
  ir::Computation* body_;
  ir::Instruction* state_;
  std::vector<ir::Shape> shapes_;
  std::vector<Node> initial_, next_;
};

// The dimensions of a stack of `count` values of `dims`.
ir::Dims stacked(std::int64_t count, const ir::Dims& dims);
// Element `index` of a stack.
Tape::Node pick(Tape& tape, Tape::Node stack, Tape::Node index);
// The stack with `value` as element `index`.
Tape::Node put(Tape& tape, Tape::Node stack, Tape::Node value, Tape::Node index);

}  // namespace plimsoll::graphs
