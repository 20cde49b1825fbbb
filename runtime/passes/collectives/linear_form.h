// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/base/pointer_map.h"
#include "runtime/ir/module.h"

namespace plimsoll::passes {

// How an operation depends on those of its operands that are linear.
struct LinearRule {
  // Empty where the result is linear: a sum over participants of the same operation on what they
  // contribute to the operands.
  std::string why_not;
  // Operands that are added and that every participant has: each contributes its share.
  std::vector<int> addends;
};

// `is_linear` and `is_common` (the same in all participants that are summed) of an operand by its
// number. Precondition: at least one is linear. `narrower_sums`: floats may become narrower.
LinearRule linear_rule(const ir::Instruction& instruction,
                       const std::function<bool(int)>& is_linear,
                       const std::function<bool(int)>& is_common, bool narrower_sums);

// The values of a computation that are sums over participants: value = sum of coefficient * term +
// rest, where terms are results of sums over groups, and coefficients and rest are common. What
// each contributes comes of the same operations on the terms before they were summed, and of a
// share of the addends.
class LinearForms {
 public:
  struct Form {
    int sum = -1;  // whose groups the value is a sum over; -1: it is none
    LinearRule rule;
  };
  // Which sum a value is a term of, or -1. Asked once for every instruction, in their order, when
  // the forms of its operands are known.
  using TermOf = std::function<int(const ir::Instruction&)>;
  using IsCommon = std::function<bool(const ir::Instruction&, int sum)>;
  LinearForms(bool narrower_sums, IsCommon is_common)
      : narrower_sums_(narrower_sums), is_common_(std::move(is_common)) {}

  void find(const ir::Computation& computation, const TermOf& term_of);

  // Null for what is not a sum.
  const Form* find_linear(const ir::Instruction& value) const;
  // Why an instruction that reads a sum is none.
  const std::string& why_not(const ir::Instruction& reader) const;

 private:
  bool narrower_sums_;
  IsCommon is_common_;
  PointerMap<ir::Instruction, Form> forms_;  // of what is linear or reads what is
};

}  // namespace plimsoll::passes
