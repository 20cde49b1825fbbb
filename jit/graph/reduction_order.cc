// SPDX-License-Identifier: Apache-2.0
#include "jit/graph/reduction_order.h"

#include <unordered_map>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/shapes/builder.h"

namespace plimsoll::jit {
namespace {

using ir::DType;
using ir::Opcode;

using Tuple = std::vector<ir::Literal>;

// The computation's results on scalars; empty when it cannot be evaluated.
Tuple evaluate(const ir::Computation& computation, const Tuple& a, const Tuple& b) {
  std::unordered_map<const ir::Instruction*, ir::Literal> values;
  for (const auto& instruction : computation.instructions()) {
    if (instruction->opcode() == Opcode::parameter) {
      const auto number = at(instruction->attributes().parameter_number);
      values.emplace(instruction.get(), number < a.size() ? a[number] : b[number - a.size()]);
      continue;
    }
    Tuple operands;
    for (const ir::Instruction* operand : instruction->operands()) {
      operands.push_back(values.at(operand));
    }
    if (instruction->opcode() == Opcode::tuple) return operands;
    auto result = ir::interpret(*instruction, operands);
    if (!result.ok()) return {};
    values.emplace(instruction.get(), std::move(*result));
  }
  return {values.at(computation.root())};
}

}  // namespace

bool must_run_in_order(const ir::Computation& computation) {
  if (ir::plain_operation(computation).has_value()) return false;
  const std::size_t count = computation.parameters().size() / 2;
  // Small whole numbers: arithmetic on them is exact, and ties are frequent.
  std::uint32_t state = 1;
  const auto sample = [&] {
    Tuple values;
    for (std::size_t i = 0; i < count; ++i) {
      ir::Literal literal(computation.parameters()[i]->shape());
      state = state * 1664525u + 1013904223u;
      const int number = static_cast<int>((state >> 16) % 5);
      const DType dtype = literal.shape().dtype();
      const bool is_signed =
          ir::is_floating(dtype) || ir::dtype_class(dtype) == ir::DTypeClass::signed_int;
      literal.set(0, dtype == DType::pred ? number % 2 : is_signed ? number - 2 : number);
      values.push_back(std::move(literal));
    }
    return values;
  };
  constexpr int kSamples = 64;
  for (int i = 0; i < kSamples; ++i) {
    const Tuple a = sample(), b = sample(), c = sample();
    const Tuple ab = evaluate(computation, a, b);
    if (ab.size() != count || ab != evaluate(computation, b, a)) return true;
    const Tuple bc = evaluate(computation, b, c);
    if (evaluate(computation, ab, c) != evaluate(computation, a, bc)) return true;
  }
  return false;
}

}  // namespace plimsoll::jit
