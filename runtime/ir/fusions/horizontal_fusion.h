// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "runtime/ir/module.h"

// A horizontal fusion: one launch of many independent kernels, its parts. It is a fusion whose
// computation holds fusions, each of which reads parameters only; a tuple of the parts' results
// (get-tuple-elements of parts with several) is the root. Parts share nothing but parameters.
namespace plimsoll::ir {

// The parts of a horizontal fusion in their order; empty for every other instruction.
std::vector<const Instruction*> horizontal_parts(const Instruction& instruction);

// A result of a horizontal fusion: leaf `leaf` of `part`.
struct PartResult {
  const Instruction* part = nullptr;
  int leaf = 0;
};

// Where result leaf `leaf` of a horizontal fusion comes from; a null part for every other
// instruction. Constant time: it looks at this result only.
PartResult horizontal_result(const Instruction& instruction, int leaf);

}  // namespace plimsoll::ir
