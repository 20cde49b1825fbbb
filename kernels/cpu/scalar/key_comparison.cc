// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/scalar/key_comparison.h"

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

}  // namespace

std::optional<KeyComparison> key_comparison(const ir::PairComparison& comparison) {
  ir::Module module("key");
  ir::Computation* const key = module.add_computation("key");
  std::map<const Instruction*, Instruction*> known;
  key->set_root(copy(*comparison.of, *key, known));
  auto program = ScalarProgram::compile(*key, false);
  if (!program.ok()) return std::nullopt;
  return KeyComparison{{comparison.key, comparison.direction, comparison.order},
                       *std::move(program)};
}

std::optional<KeyComparison> recognize_key_comparison(const ir::Computation& computation) {
  const auto comparison = ir::read_pair_comparison(*computation.root());
  if (!comparison.has_value()) return std::nullopt;
  return key_comparison(*comparison);
}

}  // namespace plimsoll::kernels
