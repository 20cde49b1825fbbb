// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/dataflow/run_again.h"

#include <algorithm>
#include <unordered_set>

namespace plimsoll::ir {
namespace {

using Seen = std::unordered_set<const Computation*>;

bool communicates_in(const Instruction& instruction, Seen& seen) {
  const OpClass op_class = op_info(instruction.opcode()).op_class;
  if (op_class == OpClass::collective || op_class == OpClass::async) return true;
  if (op_class != OpClass::control) return false;
  for (const Computation* callee : callees_of(instruction)) {
    if (!seen.insert(callee).second) continue;
    const auto& inner = callee->instructions();
    if (std::any_of(inner.begin(), inner.end(),
                    [&](const auto& each) { return communicates_in(*each, seen); })) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool communicates(const Instruction& instruction) {
  Seen seen;
  return communicates_in(instruction, seen);
}

bool may_run_again(const Instruction& instruction) {
  return !instruction.has_side_effect() && instruction.control_successors().empty() &&
         !communicates(instruction);
}

}  // namespace plimsoll::ir
