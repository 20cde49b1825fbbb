// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/scalar/key_comparison.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace plimsoll::kernels {
namespace {

using ir::Instruction;
using ir::Opcode;

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

bool compares(const Instruction& at, ir::ComparisonDirection direction) {
  return at.opcode() == Opcode::compare && at.attributes().comparison_direction == direction &&
         at.attributes().comparison_order == ir::ComparisonOrder::natural;
}

// select(x != x, NaN, select(x == 0, 0, x)).
bool is_canonical(const Instruction& of) {
  if (of.opcode() != Opcode::select || !ir::is_floating(of.shape().dtype())) return false;
  const Instruction &is_nan = *of.operand(0), &nan = *of.operand(1), &number = *of.operand(2);
  if (number.opcode() != Opcode::select || nan.opcode() != Opcode::constant) return false;
  const Instruction &is_zero = *number.operand(0), &zero = *number.operand(1),
                    &x = *number.operand(2);
  return x.opcode() == Opcode::parameter && zero.opcode() == Opcode::constant &&
         compares(is_nan, ir::ComparisonDirection::ne) && is_nan.operand(0) == &x &&
         is_nan.operand(1) == &x && compares(is_zero, ir::ComparisonDirection::eq) &&
         is_zero.operand(0) == &x && is_zero.operand(1)->opcode() == Opcode::constant &&
         is_zero.operand(1)->attributes().literal->at(0) == 0 &&
         zero.attributes().literal->at(0) == 0 && !std::signbit(zero.attributes().literal->at(0)) &&
         ir::visit_dtype(of.shape().dtype(), [&](auto element) {
           using T = decltype(element);
           const auto quiet = T(std::numeric_limits<float>::quiet_NaN());
           return std::memcmp(nan.attributes().literal->bytes().data(), &quiet, sizeof(T)) == 0;
         });
}

}  // namespace

std::optional<KeyComparison> key_comparison(const ir::PairComparison& comparison) {
  ir::Module module("key");
  ir::Computation* const key = module.add_computation("key");
  std::map<const Instruction*, Instruction*> known;
  key->set_root(copy(*comparison.of, *key, known));
  auto program = ScalarProgram::compile(*key, false);
  if (!program.ok()) return std::nullopt;
  return KeyComparison{{comparison.key, comparison.direction, comparison.order},
                       *std::move(program),
                       is_canonical(*comparison.of)};
}

std::optional<KeyComparison> recognize_key_comparison(const ir::Computation& computation) {
  const auto comparison = ir::read_pair_comparison(*computation.root());
  if (!comparison.has_value()) return std::nullopt;
  return key_comparison(*comparison);
}

}  // namespace plimsoll::kernels
