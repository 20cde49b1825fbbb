// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "runtime/ir/hint.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"
#include "runtime/passes/simplify/simplify_rules.h"

// Whether s lies above c is whether max(s, c) does. The gradient of a ReLU asks no more of s than
// that, and a training step keeps max(s, 0) anyway, for the gradient of what reads it: then s need
// not be kept beside it.
//
// Example: forward `s = x + y; r = max(s, 0); z = conv(r, w)`, backward `dw = conv(r, dz)`,
// `ds = select(s > 0, dr, 0)`. The last becomes select(r > 0, dr, 0), for the same bits (a NaN is
// above nothing, and so is what max makes of it), and s ends with the kernel that makes it.

namespace plimsoll::passes {
namespace {

using ir::ComparisonDirection;
using ir::Computation;
using ir::Instruction;
using ir::Opcode;

// What takes part in it of the two bounds, and on which side of a comparison the value stands.
struct Question {
  Opcode bound;  // maximum for "above", minimum for "below"
  double threshold;
  bool operator==(const Question&) const = default;
};

// What `comparison` asks of its operand `side`, where it asks that.
bool reads_question(const Instruction& comparison, int side, Question& question) {
  if (comparison.opcode() != Opcode::compare ||
      comparison.attributes().comparison_order != ir::ComparisonOrder::natural) {
    return false;
  }
  const ir::Literal* other = splat_value(*comparison.operand(1 - side));
  if (other == nullptr || comparison.operand(side) == comparison.operand(1 - side)) return false;
  const ComparisonDirection direction = comparison.attributes().comparison_direction;
  const bool above = direction == (side == 0 ? ComparisonDirection::gt : ComparisonDirection::lt);
  const bool below = direction == (side == 0 ? ComparisonDirection::lt : ComparisonDirection::gt);
  if (!above && !below) return false;
  question = {above ? Opcode::maximum : Opcode::minimum, other->at(0)};
  return true;
}

// Whether all that `reader` does with `value` is to ask one question.
bool only_asks(const Instruction& reader, const Instruction& value, Question& question) {
  bool asked = false;
  const auto ask = [&](const Instruction& comparison, const Instruction& asked_of) {
    for (const int side : {0, 1}) {
      if (comparison.operand_count() != 2 || comparison.operand(side) != &asked_of) continue;
      Question one{};
      if (!reads_question(comparison, side, one) || (asked && !(one == question))) return false;
      question = one;
      asked = true;
      return true;
    }
    return false;
  };
  if (reader.opcode() == Opcode::compare) return ask(reader, value);
  if (reader.opcode() != Opcode::fusion ||
      reader.attributes().fusion_kind == ir::FusionKind::custom) {
    return false;
  }
  for (int i = 0; i < reader.operand_count(); ++i) {
    if (reader.operand(i) != &value) continue;
    const Instruction& parameter = *reader.to_apply()->parameters()[static_cast<std::size_t>(i)];
    if (parameter.is_root()) return false;
    for (const Instruction* user : parameter.users()) {
      if (!ask(*user, parameter)) return false;
    }
  }
  return asked;
}

// What the elements of a result are made by, inside its kernel.
const Instruction& made_by(const Instruction& result) {
  const Instruction* maker = &result;
  if (maker->opcode() == Opcode::get_tuple_element &&
      maker->operand(0)->opcode() == Opcode::fusion) {
    const Instruction& root = *maker->operand(0)->to_apply()->root();
    if (root.opcode() == Opcode::tuple) {
      return *root.operand(static_cast<int>(maker->attributes().tuple_index));
    }
  }
  if (maker->opcode() == Opcode::fusion && maker->shape().is_array()) {
    return *maker->to_apply()->root();
  }
  return result;
}

class Comparisons {
 public:
  explicit Comparisons(Computation& computation) : computation_(computation) {
    for (const auto& instruction : computation.instructions()) {
      place_.emplace(instruction.get(), static_cast<std::int64_t>(place_.size()));
    }
  }

  bool run() {
    bool changed = false;
    for (const auto& instruction : computation_.instructions()) {
      if (instruction->shape().is_array() && ask_another(*instruction)) changed = true;
    }
    return changed;
  }

 private:
  std::int64_t end_of(const Instruction& value) const {
    std::int64_t end = value.is_root() ? computation_.instruction_count() : place_.at(&value);
    for (const Instruction* user : value.users()) end = std::max(end, place_.at(user));
    return end;
  }

  // A value that is `question.bound` of `value` and the threshold.
  Instruction* find_bounded(Instruction& value, const Question& question) const {
    const auto is_bounded = [&](const Instruction& bounded, const Instruction& from) {
      if (bounded.opcode() != question.bound) return false;
      for (const int side : {0, 1}) {
        const ir::Literal* other = splat_value(*bounded.operand(1 - side));
        if (bounded.operand(side) == &from && other != nullptr &&
            other->at(0) == question.threshold) {
          return true;
        }
      }
      return false;
    };
    // A result beside it.
    if (value.opcode() == Opcode::get_tuple_element) {
      const Instruction& inner = made_by(value);
      for (Instruction* other : value.operand(0)->users()) {
        if (other != &value && other->opcode() == Opcode::get_tuple_element &&
            other->shape() == value.shape() && is_bounded(made_by(*other), inner)) {
          return other;
        }
      }
    }
    // Made of it by one of its readers.
    for (Instruction* user : value.users()) {
      if (user->shape() == value.shape() && is_bounded(*user, value)) return user;
      if (user->opcode() != Opcode::fusion ||
          user->attributes().fusion_kind == ir::FusionKind::custom) {
        continue;
      }
      for (int i = 0; i < user->operand_count(); ++i) {
        if (user->operand(i) != &value) continue;
        const Instruction& parameter = *user->to_apply()->parameters()[static_cast<std::size_t>(i)];
        if (user->shape() == value.shape() && is_bounded(made_by(*user), parameter)) return user;
        if (!user->shape().is_tuple()) continue;
        for (Instruction* result : user->users()) {
          if (result->opcode() == Opcode::get_tuple_element && result->shape() == value.shape() &&
              is_bounded(made_by(*result), parameter)) {
            return result;
          }
        }
      }
    }
    return nullptr;
  }

  // Lets those that only ask where `value` lies ask its bounded form, where less is kept by that.
  bool ask_another(Instruction& value) {
    if (value.is_root() || ir::must_materialize(value)) return false;
    Question question{};
    std::vector<Instruction*> askers;
    std::int64_t others = place_.at(&value);  // the last that reads more of it
    for (Instruction* user : value.users()) {
      Question one{};
      const bool asks = only_asks(*user, value, one) && (askers.empty() || one == question);
      if (asks) {
        question = one;
        askers.push_back(user);
      } else {
        others = std::max(others, place_.at(user));
      }
    }
    if (askers.empty()) return false;
    Instruction* const bounded = find_bounded(value, question);
    if (bounded == nullptr) return false;
    std::erase_if(askers, [&](const Instruction* asker) {
      const bool is_early = place_.at(asker) <= place_.at(bounded);
      if (is_early) others = std::max(others, place_.at(asker));
      return is_early;
    });
    if (askers.empty()) return false;
    std::int64_t last = 0;
    for (const Instruction* asker : askers) last = std::max(last, place_.at(asker));
    const std::int64_t shorter = end_of(value) - others;
    const std::int64_t longer = std::max<std::int64_t>(0, last - end_of(*bounded));
    if (shorter <= 0 || longer > 0) return false;
    for (Instruction* asker : askers) {
      for (int i = 0; i < asker->operand_count(); ++i) {
        if (asker->operand(i) == &value) asker->replace_operand(i, bounded);
      }
    }
    return true;
  }

  Computation& computation_;
  std::unordered_map<const Instruction*, std::int64_t> place_;
};

}  // namespace

Result<bool> compare_bounded(ir::Module& module) {
  bool changed = false;
  for (Computation* computation : programs_of(module)) {
    if (Comparisons(*computation).run()) changed = true;
  }
  if (changed) PLIMSOLL_RETURN_IF_ERROR(eliminate_dead_code(module).status());
  return changed;
}

}  // namespace plimsoll::passes
