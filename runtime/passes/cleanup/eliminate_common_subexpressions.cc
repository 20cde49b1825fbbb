// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/hash.h"
#include "runtime/passes/cleanup/common_subexpressions.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::Instruction;
using ir::OpClass;
using ir::Opcode;

namespace {

bool may_merge(const Instruction& instruction) {
  switch (instruction.opcode()) {
    case Opcode::parameter:
    case Opcode::opt_barrier:
    case Opcode::add_dependency:
    case Opcode::after_all:
    case Opcode::domain:
      return false;
    default:
      break;
  }
  const OpClass op_class = op_info(instruction.opcode()).op_class;
  return op_class != OpClass::collective && op_class != OpClass::async &&
         instruction.control_predecessors().empty() && instruction.control_successors().empty() &&
         !instruction.has_side_effect();
}

bool is_reducer_call(const Instruction& instruction) {
  switch (instruction.opcode()) {
    case Opcode::call:
    case Opcode::while_:
    case Opcode::conditional:
    case Opcode::fusion:
    case Opcode::async_start:
      return false;
    default:
      return true;
  }
}

// Computations on elements are shared; those that passes and plans specialise stay one per call.
bool share_reducers(ir::Module& module, const ComputationClasses& classes) {
  bool changed = false;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      if (instruction->called_computations().empty() || !is_reducer_call(*instruction)) continue;
      std::vector<Computation*> shared;
      for (const Computation* callee : instruction->called_computations()) {
        shared.push_back(classes.representative(classes[callee]));
      }
      if (shared == instruction->called_computations()) continue;
      instruction->set_called_computations(std::move(shared));
      changed = true;
    }
  }
  return changed;
}

// Instructions by the hash of what they are: one array with open addressing.
class KnownInstructions {
 public:
  explicit KnownInstructions(std::size_t most) : slots_(std::bit_ceil(2 * most + 2)) {}

  // The one with this hash that `is_equal`; `added` takes its place, and null is given, where there
  // is none.
  template <typename Equal>
  Instruction* find_or_add(std::size_t hash, Instruction* added, const Equal& is_equal) {
    std::size_t at = hash & (slots_.size() - 1);
    for (; slots_[at].instruction != nullptr; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].hash == hash && is_equal(*slots_[at].instruction)) {
        return slots_[at].instruction;
      }
    }
    slots_[at] = {hash, added};
    return nullptr;
  }

 private:
  struct Slot {
    std::size_t hash = 0;
    Instruction* instruction = nullptr;
  };
  std::vector<Slot> slots_;
};

}  // namespace

Result<bool> merge_equal_instructions(Computation& computation, const ComputationClasses& classes) {
  KnownInstructions known(computation.instructions().size());
  Rewriter rewriter(computation);
  const auto rule = [&](Rewriter&, Instruction& at) -> Instruction* {
    if (!may_merge(at)) return nullptr;
    std::size_t hash = classes.hash_operation(at);
    for (const Instruction* operand : at.operands()) {
      hash = combine_hash(hash, reinterpret_cast<std::uintptr_t>(operand));
    }
    return known.find_or_add(hash, &at, [&](const Instruction& earlier) {
      return earlier.operands() == at.operands() && classes.same_operation(earlier, at);
    });
  };
  return rewriter.sweep(rule);
}

Result<bool> eliminate_common_subexpressions(ir::Module& module) {
  const ComputationClasses classes(module);
  bool changed = share_reducers(module, classes);
  const auto fixed = kernel_bodies(module);
  for (const auto& computation : module.computations()) {
    if (fixed.contains(computation.get())) continue;
    PLIMSOLL_ASSIGN_OR_RETURN(const bool merged, merge_equal_instructions(*computation, classes));
    changed = changed || merged;
  }
  if (changed) module.remove_unreachable();
  return changed;
}

}  // namespace plimsoll::passes
