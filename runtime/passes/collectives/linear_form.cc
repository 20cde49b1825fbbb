// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/collectives/linear_form.h"

#include <fmt/core.h>

#include "runtime/ir/shapes/builder.h"
#include "runtime/passes/simplify/simplify_rules.h"

namespace plimsoll::passes {

using ir::DType;
using ir::Instruction;
using ir::Opcode;

namespace {

// A sum of floats in `to` is no worse than one in `from`.
bool sums_no_worse(DType from, DType to) {
  if (from == to || to == DType::f64) return true;
  if (to == DType::f32) return from != DType::f64;
  return to == DType::bf16 && ir::is_narrow(from);
}

// Adds up from zero, in the dtype of what it adds.
bool is_plain_reduction(const Instruction& instruction) {
  return instruction.operand_count() == 2 &&
         ir::is_binary_computation(*instruction.to_apply(), Opcode::add) &&
         instruction.to_apply()->root()->shape().dtype() == instruction.shape().dtype() &&
         is_zero(*instruction.operand(1));
}

std::string named(const Instruction& instruction) {
  return fmt::format("{} '{}'", to_string(instruction.opcode()), instruction.name());
}

LinearRule no(std::string why) { return {std::move(why), {}}; }

class Rules {
 public:
  Rules(const Instruction& at, const std::function<bool(int)>& is_linear,
        const std::function<bool(int)>& is_common, bool narrower_sums)
      : at_(at),
        is_linear_(is_linear),
        is_common_(is_common),
        narrower_sums_(narrower_sums),
        dtype_(at.shape().is_array() ? at.shape().dtype() : DType::pred) {}

  LinearRule rule() const {
    if (!at_.shape().is_array()) return no(named(at_) + " is not linear");
    if (at_.opcode() == Opcode::convert) return convert();
    for (int i = 0; i < at_.operand_count(); ++i) {
      if (is_linear_(i) && at_.operand(i)->shape().dtype() != dtype_) {
        return no(fmt::format("{} of {} results in {}", named(at_),
                              to_string(at_.operand(i)->shape().dtype()), to_string(dtype_)));
      }
    }
    switch (at_.opcode()) {
      case Opcode::negate:
      case Opcode::copy:
      case Opcode::reshape:
      case Opcode::bitcast:
      case Opcode::transpose:
      case Opcode::broadcast:
      case Opcode::slice:
      case Opcode::reverse:
        return {};
      case Opcode::add:
      case Opcode::subtract:
      case Opcode::concatenate:
        return sums_of(0, at_.operand_count());
      case Opcode::pad:
        return sums_of(0, 2);
      case Opcode::multiply:
      case Opcode::dot:
      case Opcode::convolution:
        return is_linear_(1) ? factor(1, 0) : factor(0, 1);
      case Opcode::divide:
        if (!is_floating(dtype_)) return no(named(at_) + " of integers is not linear");
        return factor(0, 1);
      case Opcode::shift_left:
        return factor(0, 1);
      case Opcode::dynamic_slice:
      case Opcode::gather: {
        LinearRule indices = common(1, at_.operand_count());
        return indices;
      }
      case Opcode::dynamic_update_slice: {
        LinearRule indices = common(2, at_.operand_count());
        return indices.why_not.empty() ? sums_of(0, 2) : indices;
      }
      case Opcode::select: {
        LinearRule choice = common(0, 1);
        return choice.why_not.empty() ? sums_of(1, 3) : choice;
      }
      case Opcode::reduce:
      case Opcode::reduce_window:
        if (!is_plain_reduction(at_)) return no(named(at_) + " is no sum that starts from zero");
        return {};
      default:
        return no(named(at_) + " is not linear");
    }
  }

 private:
  LinearRule convert() const {
    const DType from = at_.operand(0)->shape().dtype();
    // Whole numbers modulo 2^n are whole numbers modulo 2^m for every smaller m.
    const bool wraps = ir::is_integer(from) && ir::is_integer(dtype_) &&
                       ir::dtype_bits(dtype_) <= ir::dtype_bits(from);
    if (wraps) return {};
    if (!is_floating(from) || !is_floating(dtype_)) {
      return no(fmt::format("{} of {} to {} is not linear", named(at_), to_string(from),
                            to_string(dtype_)));
    }
    if (sums_no_worse(from, dtype_) || narrower_sums_) return {};
    return no(fmt::format("{} would have a sum of {} added in {}", named(at_), to_string(from),
                          to_string(dtype_)));
  }

  // Operands that must be the same everywhere.
  LinearRule common(int first, int end) const {
    for (int i = first; i < end; ++i) {
      if (is_linear_(i))
        return no(named(at_) + " depends on a sum by its operand " + std::to_string(i));
      if (!is_common_(i)) return no(differs(i));
    }
    return {};
  }

  LinearRule factor(int linear, int common) const {
    if (!is_linear_(linear)) return no(named(at_) + " divides or shifts by a sum");
    if (is_linear_(common)) return no(named(at_) + " is a product of two sums");
    return is_common_(common) ? LinearRule{} : no(differs(common));
  }

  // Each of the operands is a sum or common; some of the latter add nothing.
  LinearRule sums_of(int first, int end) const {
    LinearRule rule;
    for (int i = first; i < end; ++i) {
      if (is_linear_(i)) continue;
      const Instruction& addend = *at_.operand(i);
      if (!is_common_(i)) return no(differs(i));
      if (addend.shape().dtype() != dtype_) {
        return no(fmt::format("{} adds a {}", named(at_), to_string(addend.shape().dtype())));
      }
      if (!is_zero(addend)) rule.addends.push_back(i);
    }
    return rule;
  }

  std::string differs(int operand) const {
    return fmt::format("'{}', operand {} of {}, is not known to be the same in all that are summed",
                       at_.operand(operand)->name(), operand, named(at_));
  }

  const Instruction& at_;
  const std::function<bool(int)>& is_linear_;
  const std::function<bool(int)>& is_common_;
  bool narrower_sums_;
  DType dtype_;
};

}  // namespace

LinearRule linear_rule(const Instruction& instruction, const std::function<bool(int)>& is_linear,
                       const std::function<bool(int)>& is_common, bool narrower_sums) {
  return Rules(instruction, is_linear, is_common, narrower_sums).rule();
}

void LinearForms::find(const ir::Computation& computation, const TermOf& term_of) {
  for (const auto& instruction : computation.instructions()) {
    if (const int sum = term_of(*instruction); sum >= 0) {
      forms_[instruction.get()] = {sum, {}};
      continue;
    }
    int sum = -1;
    bool several = false;
    for (const Instruction* operand : instruction->operands()) {
      const Form* const form = find_linear(*operand);
      if (form == nullptr) continue;
      several = several || (sum >= 0 && sum != form->sum);
      sum = form->sum;
    }
    if (sum < 0) continue;
    Form& form = forms_[instruction.get()];
    if (several) {
      form.rule.why_not = named(*instruction) + " reads sums over different groups";
      continue;
    }
    const auto is_linear = [&](int i) { return find_linear(*instruction->operand(i)) != nullptr; };
    const auto is_common = [&](int i) { return is_common_(*instruction->operand(i), sum); };
    form.rule = linear_rule(*instruction, is_linear, is_common, narrower_sums_);
    if (form.rule.why_not.empty()) form.sum = sum;
  }
}

const LinearForms::Form* LinearForms::find_linear(const Instruction& value) const {
  const Form* const form = forms_.find(&value);
  return form != nullptr && form->sum >= 0 ? form : nullptr;
}

const std::string& LinearForms::why_not(const Instruction& reader) const {
  static const std::string kNothing;
  const Form* const form = forms_.find(&reader);
  return form == nullptr ? kNothing : form->rule.why_not;
}

}  // namespace plimsoll::passes
