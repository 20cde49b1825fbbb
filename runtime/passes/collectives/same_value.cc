// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/collectives/same_value.h"

#include <algorithm>

#include "runtime/base/index.h"
#include "runtime/ir/attribute_fields.h"
#include "runtime/passes/collectives/participant_groups.h"

namespace plimsoll::passes {

using ir::Attributes;
using ir::Computation;
using ir::Instruction;
using ir::OpClass;
using ir::Opcode;

namespace {

constexpr int kDeepestProof = 2000;  // a proof recurses

// What an operation computes, without who does, where it came from, and how it is called.
Attributes meaning_of(const Instruction& instruction) {
  Attributes attributes = instruction.attributes();
  attributes.extra.clear();
  attributes.literal = nullptr;
  if (attributes.collective != nullptr) {
    auto collective = std::make_shared<ir::CollectiveAttributes>(*attributes.collective);
    collective->channel_id = 0;
    attributes.collective = std::move(collective);
  }
  return attributes;
}

}  // namespace

SameValues::SameValues(const ir::Module& module) : classes_(module) {
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      for (const Computation* callee : instruction->called_computations()) {
        Caller& caller = callers_[callee];
        caller.instruction = instruction.get();
        ++caller.calls;
      }
    }
  }
}

bool SameValues::same_operation(const Instruction& a, const Instruction& b) const {
  if (a.opcode() != b.opcode() || !(a.shape() == b.shape()) ||
      a.operand_count() != b.operand_count() ||
      a.called_computations().size() != b.called_computations().size()) {
    return false;
  }
  for (std::size_t i = 0; i < a.called_computations().size(); ++i) {
    if (classes_[a.called_computations()[i]] != classes_[b.called_computations()[i]]) return false;
  }
  const auto& literal_a = a.attributes().literal;
  const auto& literal_b = b.attributes().literal;
  if (literal_a != literal_b) {
    if (literal_a == nullptr || literal_b == nullptr || literal_a->is_elided() ||
        literal_b->is_elided() || !(*literal_a == *literal_b)) {
      return false;
    }
  }
  return ir::all_fields(meaning_of(a), meaning_of(b),
                        [](auto, const auto& x, const auto& y) { return ir::same_value(x, y); });
}

// Through what only puts values together and takes them apart.
SameValues::Part SameValues::made_of(Part part) {
  while (true) {
    const Instruction& value = *part.value;
    switch (value.opcode()) {
      case Opcode::get_tuple_element:
        part.path.insert(part.path.begin(), value.attributes().tuple_index);
        part.value = value.operand(0);
        continue;
      case Opcode::tuple:
        if (part.path.empty()) return part;
        part.value = value.operand(static_cast<int>(part.path[0]));
        part.path.erase(part.path.begin());
        continue;
      case Opcode::opt_barrier:
      case Opcode::domain:
        part.value = value.operand(0);
        continue;
      default:
        return part;
    }
  }
}

bool SameValues::same(const Instruction& a, const Instruction& b) {
  // What an earlier proof assumed may have been refuted.
  assumed_.clear();
  return same(Part{&a, {}}, Part{&b, {}});
}

// A pair that is met again while it is being compared is the same if nothing else differs: loops
// are compared by one round of theirs. One that differs ends the whole proof, so that nothing rests
// on what was assumed wrongly.
bool SameValues::same(Part a, Part b) {
  a = made_of(std::move(a));
  b = made_of(std::move(b));
  if (a == b) return true;
  if (!assumed_.emplace(a, b).second) return true;
  if (depth_ == kDeepestProof) return false;
  ++depth_;
  const bool found = !differ(a, b);
  --depth_;
  return found;
}

bool SameValues::same_parameters(const Part& a, const Part& b) {
  const Computation* const in_a = a.value->parent();
  const Computation* const in_b = b.value->parent();
  const Caller* const caller_a = callers_.find(in_a);
  const Caller* const caller_b = callers_.find(in_b);
  if (caller_a == nullptr || caller_b == nullptr || caller_a->calls != 1 || caller_b->calls != 1) {
    return false;
  }
  const Instruction& from_a = *caller_a->instruction;
  const Instruction& from_b = *caller_b->instruction;
  if (from_a.opcode() != from_b.opcode()) return false;
  const auto place = [](const Instruction& caller, const Computation* callee) {
    const auto& called = caller.called_computations();
    return static_cast<int>(std::find(called.begin(), called.end(), callee) - called.begin());
  };
  if (place(from_a, in_a) != place(from_b, in_b)) return false;
  switch (from_a.opcode()) {
    case Opcode::while_:
      return same({from_a.operand(0), a.path}, {from_b.operand(0), b.path}) &&
             same({from_a.while_body()->root(), a.path}, {from_b.while_body()->root(), b.path});
    case Opcode::conditional: {
      const int branch = place(from_a, in_a);
      return same({from_a.operand(branch + 1), a.path}, {from_b.operand(branch + 1), b.path});
    }
    case Opcode::call: {
      const auto number = [](const Part& part) {
        return static_cast<int>(part.value->attributes().parameter_number);
      };
      return same({from_a.operand(number(a)), a.path}, {from_b.operand(number(b)), b.path});
    }
    default:
      return false;
  }
}

bool SameValues::differ(const Part& a, const Part& b) {
  const Instruction& x = *a.value;
  const Instruction& y = *b.value;
  if (x.opcode() != y.opcode()) return true;
  switch (x.opcode()) {
    case Opcode::parameter:
      return !same_parameters(a, b);
    case Opcode::tuple:
      if (x.operand_count() != y.operand_count()) return true;
      for (int i = 0; i < x.operand_count(); ++i) {
        if (!same({x.operand(i), {}}, {y.operand(i), {}})) return true;
      }
      return false;
    case Opcode::while_:
      // Of one loop, two leaves; of two loops, which must go as many rounds.
      return !(
          same({x.operand(0), a.path}, {y.operand(0), b.path}) &&
          same({x.while_body()->root(), a.path}, {y.while_body()->root(), b.path}) &&
          (&x == &y || same({x.while_condition()->root(), {}}, {y.while_condition()->root(), {}})));
    case Opcode::conditional:
      if (x.called_computations().size() != y.called_computations().size()) return true;
      if (&x != &y && !same({x.operand(0), {}}, {y.operand(0), {}})) return true;
      for (std::size_t i = 0; i < x.called_computations().size(); ++i) {
        if (!same({x.called_computations()[i]->root(), a.path},
                  {y.called_computations()[i]->root(), b.path})) {
          return true;
        }
      }
      return false;
    case Opcode::call:
      return !same({x.to_apply()->root(), a.path}, {y.to_apply()->root(), b.path});
    default:
      break;
  }
  if (a.path != b.path || !same_operation(x, y)) return true;
  const OpClass kind = ir::op_info(x.opcode()).op_class;
  if (kind == OpClass::collective) {
    return x.opcode() != Opcode::all_reduce || ir::channel_of(x) == 0 ||
           ir::channel_of(x) != ir::channel_of(y);
  }
  if (kind == OpClass::async || x.has_side_effect() || x.opcode() == Opcode::custom_call ||
      x.opcode() == Opcode::partition_id || x.opcode() == Opcode::replica_id) {
    return true;
  }
  for (int i = 0; i < x.operand_count(); ++i) {
    if (!same({x.operand(i), {}}, {y.operand(i), {}})) return true;
  }
  return false;
}

}  // namespace plimsoll::passes
