// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <unordered_map>

#include "runtime/base/index.h"
#include "runtime/base/pointer_map.h"
#include "runtime/ir/module.h"

namespace plimsoll::passes {

// Numbers the computations of a module so that two have the same number exactly when they are equal
// up to names and metadata.
class ComputationClasses {
 public:
  // Linear in the module. The numbers hold until a computation changes. The entry, which nothing
  // calls, has none.
  explicit ComputationClasses(const ir::Module& module);

  int operator[](const ir::Computation* computation) const { return classes_.at(computation); }
  // The first computation of a class in the module's order.
  ir::Computation* representative(int number) const { return representatives_[at(number)]; }

  // Same opcode, shape (with layout), attributes (without metadata) and classes of callees;
  // operands are the caller's to compare. Elided constants equal nothing.
  bool same_operation(const ir::Instruction& a, const ir::Instruction& b) const;
  // Equal for instructions for which same_operation holds.
  std::size_t hash_operation(const ir::Instruction& instruction) const;

 private:
  void classify(ir::Computation* computation);
  bool equal(const ir::Computation& a, const ir::Computation& b) const;

  PointerMap<ir::Computation, int> classes_;
  std::vector<ir::Computation*> representatives_;
  std::unordered_map<std::size_t, std::vector<int>> by_hash_;
};

}  // namespace plimsoll::passes
