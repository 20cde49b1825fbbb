// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <unordered_set>
#include <vector>

#include "runtime/base/pointer_set.h"
#include "runtime/ir/module.h"

namespace plimsoll::passes {

// Replaces instructions of one computation by equal values, in schedule order. New instructions
// stand right before what they replace. Instructions with control edges are left alone.
class Rewriter {
 public:
  explicit Rewriter(ir::Computation& computation) : computation_(computation) {}

  // Called with an instruction that has uses: returns what takes its place (of the same shape), or
  // null. May `add` instructions.
  using Rule = std::function<ir::Instruction*(Rewriter&, ir::Instruction&)>;

  // Applies the rule to every instruction, and to its own results. Dead instructions are removed.
  Result<bool> sweep(const Rule& rule);

  // For rules.
  ir::Instruction* add(ir::Opcode opcode, ir::Shape shape, std::vector<ir::Instruction*> operands,
                       ir::Attributes attributes = {});
  ir::Instruction* add_constant(ir::Literal literal);
  // An array whose elements all have the value of `scalar` (one element).
  ir::Instruction* add_splat(const ir::Shape& shape, const ir::Literal& scalar);
  // A copy of `original` (of any computation of the module) on other operands.
  ir::Instruction* add_clone(const ir::Instruction& original,
                             std::vector<ir::Instruction*> operands);
  // The body of `callee` on `arguments`; returns its root's copy.
  ir::Instruction* add_body(const ir::Computation& callee,
                            const std::vector<ir::Instruction*>& arguments);

  ir::Computation& computation() { return computation_; }

 private:
  ir::Instruction* placed(ir::Instruction* added, ir::Instruction* root);

  ir::Computation& computation_;
  ir::Instruction* current_ = nullptr;
  std::vector<ir::Instruction*> order_;
  PointerSet<ir::Instruction> added_;
};

// The computations that run as programs of their own: the entry, and what it reaches through call,
// while, conditional and async instructions (not reducers, comparators or fused computations).
// Callees first.
std::vector<ir::Computation*> programs_of(const ir::Module& module);

// Sweeps each of them once.
Result<bool> sweep_programs(ir::Module& module, const Rewriter::Rule& rule);

// The computations of custom fusions: their kernels know them as they are, so nothing may rewrite
// them.
std::unordered_set<const ir::Computation*> kernel_bodies(const ir::Module& module);

}  // namespace plimsoll::passes
