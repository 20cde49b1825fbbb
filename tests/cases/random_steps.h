// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tests/cases/random_graph.h"
#include "tests/cases/random_module.h"

// The random choices; only random_*.cc include this.
namespace plimsoll::cases {

// The entry under construction: f32 arrays to choose from, oldest first, and the random source.
// Each member of the step functions below appends a few instructions and pushes what it made.
struct Builder {
  Builder(ir::Computation& entry, Random& random, const RandomModuleOptions& options);

  Graph graph;
  Random& random;
  const RandomModuleOptions& options;
  std::vector<Value> values;
  std::vector<ir::Dims> shapes;  // the two-dimensional shapes most values have

  Value parameter(const ir::Dims& dims);
  // A recent value mostly, any other sometimes; `exact` restricts the choice.
  Value any();
  Value any_exact();
  ir::Dims any_shape();
  // As [rows, columns] of one of the shapes.
  Value any_matrix();
  void push(Value value);

 private:
  void add_rare_parameters();
};

using Step = void (*)(Builder&);

// Elementwise operations, movements, reductions, contractions, irregular operations.
std::vector<Step> plain_steps();
// A product with weights that are a constant, or another use of such weights.
void constant_weights(Builder& b);
// Other dtypes on the way.
std::vector<Step> dtype_steps();
// Calls, loops, branches.
std::vector<Step> control_steps();
// Of a program with `rare` things in it: every form of gathers, scatters and sorts; of windows,
// reductions and contractions; operations that few programs have; calls, loops and branches in each
// other.
std::vector<Step> indexed_steps();
std::vector<Step> window_steps();
std::vector<Step> rare_steps();
std::vector<Step> nested_steps();
// Collectives among the module's participants, in loops and callees, too.
std::vector<Step> collective_steps();

// A while in `outer` over a counter from 0 to `count` and the state that `body_of_state` turns into
// the next; returns the loop, whose element k + 1 is the state's k.
using Body = std::function<std::vector<ir::Instruction*>(Graph&, ir::Instruction* counter,
                                                         const std::vector<ir::Instruction*>&)>;
ir::Instruction* counted_loop(Graph& outer, std::int64_t count,
                              const std::vector<ir::Instruction*>& initial,
                              const Body& body_of_state);

// A few bounded operations on `x` (and `y` of the same dims) inside a called computation.
Value body_of(Graph& graph, Random& random, Value x, Value y);

// The sum of x over some of the participants, such as a gradient's.
Value summed_over_all(Graph& graph, Random& random, Value x, const RandomModuleOptions& options);

}  // namespace plimsoll::cases
