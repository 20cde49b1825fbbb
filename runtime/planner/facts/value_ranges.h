// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <utility>

#include "runtime/ir/codec/value_facts.h"
#include "runtime/ir/module.h"

namespace plimsoll::planner {

using ir::ValueFacts;

// Proves facts from the instructions that compute a value, into and out of fusions and calls,
// within a bounded number of them for each. Remembers: ask about a computation's values in their
// order.
class FactFinder {
 public:
  ValueFacts find(const ir::Instruction& instruction, int leaf);

 private:
  std::map<std::pair<const ir::Instruction*, int>, ValueFacts> known_;
};

}  // namespace plimsoll::planner
