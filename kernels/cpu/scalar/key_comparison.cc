// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/scalar/key_comparison.h"

#include <map>
#include <set>
#include <utility>
#include <vector>

namespace plimsoll::kernels {
namespace {

using ir::Instruction;
using ir::Opcode;

// Of elementwise operations: the others have no attributes that matter.
bool means_the_same(const ir::Attributes& a, const ir::Attributes& b) {
  return a.comparison_direction == b.comparison_direction &&
         a.comparison_order == b.comparison_order && a.exponent_bits == b.exponent_bits &&
         a.mantissa_bits == b.mantissa_bits;
}

// Which parameters stand in the same places of two expressions.
class SameExpression {
 public:
  bool operator()(const Instruction& a, const Instruction& b) {
    if (!seen_.insert({&a, &b}).second) return true;
    if (a.opcode() != b.opcode() || !(a.shape() == b.shape()) || !a.shape().is_scalar()) {
      return false;
    }
    if (a.opcode() == Opcode::parameter) {
      const std::pair<std::int64_t, std::int64_t> numbers(a.attributes().parameter_number,
                                                          b.attributes().parameter_number);
      if (!parameters_.has_value()) parameters_ = numbers;
      return *parameters_ == numbers;
    }
    if (a.opcode() == Opcode::constant) return *a.attributes().literal == *b.attributes().literal;
    if (a.operand_count() != b.operand_count() || a.operand_count() == 0 ||
        !means_the_same(a.attributes(), b.attributes())) {
      return false;
    }
    for (int i = 0; i < a.operand_count(); ++i) {
      if (!(*this)(*a.operand(i), *b.operand(i))) return false;
    }
    return true;
  }
  // Nothing where there are none.
  std::optional<std::pair<std::int64_t, std::int64_t>> parameters() const { return parameters_; }

 private:
  std::set<std::pair<const Instruction*, const Instruction*>> seen_;
  std::optional<std::pair<std::int64_t, std::int64_t>> parameters_;
};

// The expression as a computation of one parameter.
Instruction* copy(const Instruction& from, ir::Computation& to,
                  std::map<const Instruction*, Instruction*>& known) {
  Instruction*& made = known[&from];
  if (made != nullptr) return made;
  if (from.opcode() == Opcode::parameter) return made = to.add_parameter(0, from.shape());
  if (from.opcode() == Opcode::constant) return made = to.add_constant(*from.attributes().literal);
  std::vector<Instruction*> operands;
  for (const Instruction* const operand : from.operands()) {
    operands.push_back(copy(*operand, to, known));
  }
  return known[&from] =
             to.add(from.opcode(), from.shape(), std::move(operands), {}, from.attributes());
}

}  // namespace

std::optional<KeyComparison> recognize_key_comparison(const ir::Computation& computation) {
  const Instruction& root = *computation.root();
  if (root.opcode() != Opcode::compare) return std::nullopt;
  SameExpression same;
  if (!same(*root.operand(0), *root.operand(1)) || !same.parameters().has_value()) {
    return std::nullopt;
  }
  auto [first, second] = *same.parameters();
  PlainComparison comparison{0, root.attributes().comparison_direction,
                             root.attributes().comparison_order};
  if (second < first) {
    std::swap(first, second);
    comparison.direction = ir::mirrored(comparison.direction);
  }
  if (second != first + 1 || first % 2 != 0) return std::nullopt;
  comparison.key = static_cast<std::size_t>(first / 2);
  ir::Module module("key");
  ir::Computation* const key = module.add_computation("key");
  std::map<const Instruction*, Instruction*> known;
  key->set_root(copy(*root.operand(0), *key, known));
  auto program = ScalarProgram::compile(*key, false);
  if (!program.ok()) return std::nullopt;
  return KeyComparison{comparison, *std::move(program)};
}

}  // namespace plimsoll::kernels
