// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "runtime/ir/module.h"

namespace plimsoll::graphs {

// Appends f32 operations to a computation and remembers how their gradients are made. A mistake in
// shapes throws std::logic_error.
class Tape {
 public:
  using Node = ir::Instruction*;

  explicit Tape(ir::Computation& computation) : into_(&computation) {}

  ir::Computation& computation() const { return *into_; }
  // From here on operations go to `computation`; forward values that a gradient reads are what
  // `lookup` gives there.
  void move_to(ir::Computation& computation, std::function<Node(Node)> lookup) {
    into_ = &computation;
    lookup_ = std::move(lookup);
  }

  Node op(ir::Opcode opcode, std::vector<Node> operands, ir::Attributes attributes = {},
          std::vector<ir::Computation*> called = {}, const ir::Shape* given = nullptr);
  Node scalar(float value);
  Node integer(std::int32_t value);
  Node full(float value, const ir::Dims& dims);

  // Differentiable.
  Node add(Node x, Node y);
  Node subtract(Node x, Node y);
  Node multiply(Node x, Node y);
  Node scale(Node x, float factor);
  Node tanh(Node x);
  Node exponential(Node x);
  Node rsqrt(Node x);
  Node reciprocal(Node x);
  Node reshape(Node x, const ir::Dims& dims);
  Node transpose(Node x, std::vector<std::int64_t> permutation);
  Node broadcast(Node x, const ir::Dims& dims, std::vector<std::int64_t> dimensions);
  Node sum(Node x, std::vector<std::int64_t> dimensions);
  // Batch dimensions lead in both; `contract_x` and `contract_y` are summed over.
  Node dot(Node x, Node y, std::int64_t batch, std::int64_t contract_x, std::int64_t contract_y);
  // No gradient flows through it.
  Node maximum_over(Node x, std::int64_t dimension);

  // Sets the gradient that reaches `x` from outside.
  void seed(Node x, Node gradient) { accumulate(x, gradient); }
  // Appends the gradients of everything recorded since the last call, latest first.
  void backward();
  // The gradient of `x` so far; zeros when nothing reached it.
  Node gradient(Node x);

 private:
  void record(std::function<void()> rule) { rules_.push_back(std::move(rule)); }
  void accumulate(Node x, Node gradient);
  Node held(Node x) const { return lookup_ ? lookup_(x) : x; }
  Node found(Node x) const;
  Node reduce_add(Node x, std::vector<std::int64_t> dimensions);
  Node raw_dot(Node x, Node y, std::int64_t batch, std::int64_t contract_x,
               std::int64_t contract_y);
  Node permuted(Node x, std::vector<std::int64_t> permutation);

  ir::Computation* into_;
  std::function<Node(Node)> lookup_;
  std::vector<std::function<void()>> rules_;
  std::unordered_map<Node, Node> gradients_;
};

}  // namespace plimsoll::graphs
