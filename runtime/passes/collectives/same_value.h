// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "runtime/ir/module.h"
#include "runtime/passes/cleanup/structure.h"

namespace plimsoll::passes {

// Whether two values of a module that holds the programs of several partitions are the same number:
// computed by the same operations of the same constants and of results of one all-reduce (the
// instructions of one channel_id), which is walked in lock step through tuples, loops, branches and
// calls.
class SameValues {
 public:
  explicit SameValues(const ir::Module& module);

  bool same(const ir::Instruction& a, const ir::Instruction& b);
  // The same operation with the same attributes, whatever its operands, channel and partition.
  bool same_operation(const ir::Instruction& a, const ir::Instruction& b) const;

 private:
  // Part of a value: which element of which element.
  struct Part {
    const ir::Instruction* value = nullptr;
    std::vector<std::int64_t> path;
    auto operator<=>(const Part&) const = default;
  };
  struct Caller {
    const ir::Instruction* instruction = nullptr;
    int calls = 0;
  };
  bool same(Part a, Part b);
  bool differ(const Part& a, const Part& b);
  bool same_parameters(const Part& a, const Part& b);
  static Part made_of(Part part);

  ComputationClasses classes_;
  PointerMap<ir::Computation, Caller> callers_;
  std::set<std::pair<Part, Part>> assumed_;
  int depth_ = 0;
};

}  // namespace plimsoll::passes
