// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/rewriter.h"

#include <algorithm>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/ir/hint.h"

namespace plimsoll::passes {

using ir::Attributes;
using ir::Computation;
using ir::Instruction;
using ir::Literal;
using ir::Opcode;
using ir::Shape;

namespace {

// A bitcast's meaning depends on its operand's layout annotation.
bool layout_matters(const Instruction& from, const Instruction& to) {
  if (from.shape().layout() == nullptr && to.shape().layout() == nullptr) return false;
  return std::any_of(from.users().begin(), from.users().end(),
                     [](const Instruction* user) { return user->opcode() == Opcode::bitcast; });
}

// What takes a value's place takes its hint, unless it has one of its own.
void keep_hint(const Instruction& from, Instruction& to) {
  const ir::Hint hint = ir::hint_of(from);
  if (hint != ir::Hint::none && ir::hint_of(to) == ir::Hint::none) {
    ir::set_hint(to.attributes(), hint);
  }
}

}  // namespace

// One walk in the order of the schedule. Operands have been rewritten before their users, so a rule
// sees the simplest form of what it matches, and new instructions are put right where the walk
// stands: the order stays one in which all is made before it is read. What a rule returns is
// offered to the rules again (up to kMaxChain times), so that x * 1 + 0 ends as x in one sweep.
Result<bool> Rewriter::sweep(const Rule& rule) {
  // A rule's result may be rewritten again; the bound is never met by rules that make progress.
  constexpr int kMaxChain = 16;
  bool changed = false;
  std::vector<Instruction*> before;
  before.reserve(computation_.instructions().size());
  for (const auto& instruction : computation_.instructions()) before.push_back(instruction.get());
  order_.clear();
  order_.reserve(before.size());
  added_ = {};
  std::vector<Instruction*> replaced;
  for (Instruction* original : before) {
    Instruction* at = original;
    for (int i = 0; i < kMaxChain; ++i) {
      const bool fixed = !at->control_predecessors().empty() || !at->control_successors().empty();
      if (fixed || (at->users().empty() && !at->is_root())) break;
      current_ = at;
      Instruction* with = rule(*this, *at);
      if (with == nullptr || with == at || layout_matters(*at, *with)) break;
      if (!(with->shape() == at->shape())) {
        return internal_error("rewrite of '" + at->name() + "' changes its shape from " +
                              at->shape().to_string() + " to " + with->shape().to_string());
      }
      keep_hint(*at, *with);
      at->replace_all_uses_with(with);
      replaced.push_back(at);
      changed = true;
      if (!added_.contains(with)) break;
      at = with;
    }
    order_.push_back(original);
  }
  if (added_.size() > 0) computation_.set_order(order_);
  // A rule moved their effects into what replaced them.
  for (Instruction* instruction : replaced) {
    if (instruction->has_side_effect()) computation_.remove(instruction);
  }
  if (computation_.remove_dead() > 0) changed = true;
  return changed;
}

Instruction* Rewriter::placed(Instruction* added, Instruction* root) {
  computation_.set_root(root);
  order_.push_back(added);
  added_.insert(added);
  if (current_ != nullptr && added->attributes().extra.empty()) {
    for (const auto& [name, text] : current_->attributes().extra) {
      if (name == "metadata") added->attributes().extra.emplace_back(name, text);
    }
  }
  return added;
}

Instruction* Rewriter::add(Opcode opcode, Shape shape, std::vector<Instruction*> operands,
                           Attributes attributes) {
  Instruction* root = computation_.root();
  return placed(
      computation_.add(opcode, std::move(shape), std::move(operands), {}, std::move(attributes)),
      root);
}

Instruction* Rewriter::add_constant(Literal literal) {
  Instruction* root = computation_.root();
  return placed(computation_.add_constant(std::move(literal)), root);
}

Instruction* Rewriter::add_splat(const Shape& shape, const Literal& scalar) {
  const auto bytes = scalar.bytes().first(static_cast<std::size_t>(dtype_bytes(shape.dtype())));
  Instruction* value = add_constant(Literal::from_bytes(Shape(shape.dtype(), {}), bytes));
  if (shape.is_scalar()) return value;
  return add(Opcode::broadcast, Shape(shape.dtype(), shape.dims()), {value});
}

Instruction* Rewriter::add_clone(const Instruction& original, std::vector<Instruction*> operands) {
  Instruction* root = computation_.root();
  return placed(computation_.add_clone(original, std::move(operands)), root);
}

Instruction* Rewriter::add_body(const Computation& callee,
                                const std::vector<Instruction*>& arguments) {
  PointerMap<Instruction, Instruction*> copies(callee.instructions().size());
  for (const auto& instruction : callee.instructions()) {
    if (instruction->opcode() == Opcode::parameter) {
      const auto number = at(instruction->attributes().parameter_number);
      copies.emplace(instruction.get(), arguments[number]);
      continue;
    }
    std::vector<Instruction*> operands;
    operands.reserve(instruction->operands().size());
    for (const Instruction* operand : instruction->operands()) {
      operands.push_back(copies.at(operand));
    }
    Instruction* copy = add_clone(*instruction, std::move(operands));
    for (const Instruction* predecessor : instruction->control_predecessors()) {
      Instruction* before = copies.at(predecessor);
      if (before->opcode() != Opcode::parameter) copy->add_control_predecessor(before);
    }
    copies.emplace(instruction.get(), copy);
  }
  return copies.at(callee.root());
}

std::unordered_set<const Computation*> kernel_bodies(const ir::Module& module) {
  std::unordered_set<const Computation*> bodies;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      if (instruction->opcode() == Opcode::fusion &&
          instruction->attributes().fusion_kind == ir::FusionKind::custom) {
        bodies.insert(instruction->to_apply());
      }
    }
  }
  return bodies;
}

std::vector<Computation*> programs_of(const ir::Module& module) {
  std::vector<Computation*> order;
  std::unordered_set<const Computation*> seen = {module.entry()};
  struct Frame {
    Computation* computation;
    std::vector<Computation*> callees;
  };
  const auto callees = [](const Computation& computation) {
    std::vector<Computation*> found;
    for (const auto& instruction : computation.instructions()) {
      switch (instruction->opcode()) {
        case Opcode::call:
        case Opcode::while_:
        case Opcode::conditional:
        case Opcode::async_start:
          found.insert(found.end(), instruction->called_computations().rbegin(),
                       instruction->called_computations().rend());
          break;
        default:
          break;
      }
    }
    return found;
  };
  std::vector<Frame> stack = {{module.entry(), callees(*module.entry())}};
  while (!stack.empty()) {
    if (stack.back().callees.empty()) {
      order.push_back(stack.back().computation);
      stack.pop_back();
      continue;
    }
    Computation* next = stack.back().callees.back();
    stack.back().callees.pop_back();
    if (seen.insert(next).second) stack.push_back({next, callees(*next)});
  }
  return order;
}

Result<bool> sweep_programs(ir::Module& module, const Rewriter::Rule& rule) {
  bool changed = false;
  for (Computation* const computation : programs_of(module)) {
    PLIMSOLL_ASSIGN_OR_RETURN(const bool swept, Rewriter(*computation).sweep(rule));
    changed = changed || swept;
  }
  return changed;
}

}  // namespace plimsoll::passes
