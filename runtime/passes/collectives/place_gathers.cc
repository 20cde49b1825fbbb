// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>

#include "runtime/base/pointer_set.h"
#include "runtime/ir/hint.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"

namespace plimsoll::passes {

using ir::Instruction;
using ir::Opcode;

namespace {

bool is_hinted(const Instruction& instruction) {
  return ir::hint_of(instruction) == ir::Hint::recompute;
}

bool has_control_edges(const Instruction& instruction) {
  return !instruction.control_predecessors().empty() || !instruction.control_successors().empty();
}

// Of several arrays the hints are those of the tuple's elements.
bool is_gather_for_readers(const Instruction& instruction) {
  if (instruction.opcode() != Opcode::all_gather) return false;
  return is_hinted(instruction) ||
         std::any_of(instruction.users().begin(), instruction.users().end(), [](const auto* user) {
           return user->opcode() == Opcode::get_tuple_element && is_hinted(*user);
         });
}

bool shrinks_or_stays(Opcode opcode) {
  return opcode == Opcode::reduce_scatter || opcode == Opcode::all_reduce;
}

// What takes next to no time beside what it reads.
bool is_light(const Instruction& instruction) {
  if (instruction.has_side_effect() || has_control_edges(instruction)) return false;
  switch (ir::op_info(instruction.opcode()).op_class) {
    case ir::OpClass::unary:
    case ir::OpClass::binary:
    case ir::OpClass::ternary:
    case ir::OpClass::creation:
    case ir::OpClass::movement:
      return true;
    default:
      return instruction.opcode() == Opcode::get_tuple_element;
  }
}

class Placement {
 public:
  explicit Placement(ir::Computation& computation) : computation_(computation) {
    for (const auto& instruction : computation.instructions()) {
      if (instruction->is_root() || has_control_edges(*instruction)) continue;
      const bool of_late = instruction->operand_count() == 1 && is_late(instruction->operand(0)) &&
                           is_light(*instruction);
      if (of_late || is_gather_for_readers(*instruction)) late_.insert(instruction.get());
    }
  }

  bool has_gathers() const { return late_.size() > 0; }

  // The new order: what is late right before its first reader, sums as soon as there is what they
  // add up, each kind in the order in which it stood.
  std::vector<Instruction*> order() {
    find_readiness();
    order_.reserve(static_cast<std::size_t>(computation_.instruction_count()));
    std::size_t next = 0;
    int number = 0;
    for (const auto& instruction : computation_.instructions()) {
      if (!is_late(instruction.get())) place(instruction.get());
      for (; next < sums_.size() && ready_.at(sums_[next]) <= number; ++next) place(sums_[next]);
      ++number;
    }
    for (const auto& instruction : computation_.instructions()) place(instruction.get());
    return std::move(order_);
  }

 private:
  bool is_late(const Instruction* instruction) const { return late_.contains(instruction); }

  // After which instruction of the old order each could run, what is light being done on the way.
  void find_readiness() {
    int number = 0, last = -1;
    for (const auto& instruction : computation_.instructions()) {
      int ready = -1;
      for (const Instruction* operand : instruction->operands()) {
        ready = std::max(ready, ready_.at(operand));
      }
      const bool is_sum = shrinks_or_stays(instruction->opcode()) &&
                          !has_control_edges(*instruction) && !instruction->is_root();
      if (is_sum) {
        ready = last = std::max(ready, last);
        sums_.push_back(instruction.get());
      } else if (instruction->opcode() != Opcode::parameter && !is_light(*instruction)) {
        ready = number;
      }
      ready_[instruction.get()] = ready;
      ++number;
    }
  }

  void place(Instruction* instruction) {
    std::vector<std::pair<Instruction*, int>> open = {{instruction, 0}};
    while (!open.empty()) {
      auto& [at, next] = open.back();
      if (next == 0 && placed_.contains(at)) {
        open.pop_back();
      } else if (next < at->operand_count()) {
        Instruction* const operand = at->operand(next++);
        open.emplace_back(operand, 0);
      } else {
        if (placed_.insert(at)) order_.push_back(at);
        open.pop_back();
      }
    }
  }

  ir::Computation& computation_;
  PointerSet<Instruction> late_, placed_;
  std::vector<Instruction*> sums_;
  std::unordered_map<const Instruction*, int> ready_;
  std::vector<Instruction*> order_;
};

}  // namespace

Result<bool> place_gathers(ir::Module& module) {
  bool changed = false;
  for (ir::Computation* const computation : programs_of(module)) {
    Placement placement(*computation);
    if (!placement.has_gathers()) continue;
    const std::vector<Instruction*> order = placement.order();
    const auto& before = computation->instructions();
    if (std::equal(order.begin(), order.end(), before.begin(), before.end(),
                   [](const Instruction* a, const auto& b) { return a == b.get(); })) {
      continue;
    }
    computation->set_order(order);
    changed = true;
  }
  return changed;
}

}  // namespace plimsoll::passes
