// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "runtime/base/pointer_map.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"

// Every operation on bf16 or f16 widens its operands to f32 and rounds its result, so that a chain
// of them spends most of its instructions on rounding. Here such a chain keeps f32 from its first
// operation to its last and rounds once.
//
// A chain must not outlast a kernel: a value that waits for another kernel would take twice the
// bytes. Whether two operations will share one isn't known yet (it depends on the form that a plan
// chooses, and the bits must not), so it is told by their *stage*, the most contractions,
// reductions, loops and the like on a way from the program's arguments to them: an elementwise
// operation is handed the unrounded value of another one of its own stage, and what reads a value
// at a later stage (the gradient of an activation, say) reads it rounded.
//
// Example, all bf16: `h = dot(x, w); a = h * h; b = a + h; c = sqrt(b); y = dot(c, v)` becomes
// `h32 = convert(h); c = convert(sqrt(h32 * h32 + h32))`.

namespace plimsoll::passes {
namespace {

using ir::DType;
using ir::Instruction;
using ir::OpClass;
using ir::Opcode;
using ir::Shape;

bool is_short(const Shape& shape) {
  return shape.is_array() && (shape.dtype() == DType::bf16 || shape.dtype() == DType::f16);
}

Shape widened(const Shape& shape) { return Shape(DType::f32, shape.dims()); }

// Elementwise on floats, computed in f32, with nothing that looks at how its operands are stored.
// What compares, tests, cuts to integers, or rounds because the program says so, is none of these:
// it sees the values that the dtype holds. Nor are functions that kernels compute of bf16 and f16
// by polynomials of their own: with both roundings they take less time than those of f32.
bool computes(const Instruction& instruction) {
  const Shape& shape = instruction.shape();
  if (!ir::is_elementwise(instruction.opcode()) || !shape.is_array() ||
      !ir::is_floating(shape.dtype())) {
    return false;
  }
  switch (instruction.opcode()) {
    case Opcode::bitcast_convert:
    case Opcode::stochastic_convert:
    case Opcode::reduce_precision:
      return false;
    case Opcode::convert:
    case Opcode::exponential:
    case Opcode::log:
    case Opcode::logistic:
    case Opcode::tanh:
    case Opcode::erf:
      return !is_short(shape);
    default:
      return std::none_of(
          instruction.operands().begin(), instruction.operands().end(),
          [](const Instruction* operand) { return operand->shape().dtype() == DType::f64; });
  }
}

// Whether a result in a short dtype may be no value of it before it is rounded, though the operands
// are.
bool rounds(Opcode opcode) {
  switch (opcode) {
    case Opcode::abs:
    case Opcode::negate:
    case Opcode::sign:
    case Opcode::ceil:
    case Opcode::floor:
    case Opcode::round_nearest_afz:
    case Opcode::round_nearest_even:
    case Opcode::maximum:
    case Opcode::minimum:
    case Opcode::select:
    case Opcode::clamp:
    case Opcode::copy:
      return false;
    default:
      return true;
  }
}

// One computation's values as they are before rounding.
class Chains {
 public:
  explicit Chains(const ir::Computation& computation)
      : facts_(computation.instructions().size()), unrounded_(computation.instructions().size()) {
    for (const auto& instruction : computation.instructions())
      facts_.emplace(instruction.get(), {});
    for (const auto& instruction : computation.instructions()) note(*instruction);
    for (const auto& instruction : computation.instructions()) choose(*instruction);
  }

  // What takes the place of `at`, or null.
  Instruction* rewrite(Rewriter& rewriter, Instruction& at) {
    const Facts* facts = facts_.find(&at);
    if (facts == nullptr || !facts->takes_part) return nullptr;
    std::vector<Instruction*> operands;
    for (Instruction* operand : at.operands()) {
      operands.push_back(unrounded(rewriter, *operand, facts->stage));
    }
    if (!is_short(at.shape())) {
      if (at.opcode() == Opcode::convert && operands[0]->shape() == at.shape()) return operands[0];
      return rewriter.add(at.opcode(), at.shape(), operands, at.attributes());
    }
    Instruction* wide = rewriter.add(at.opcode(), widened(at.shape()), operands, at.attributes());
    Instruction* rounded = rewriter.add(Opcode::convert, at.shape(), {wide});
    unrounded_.emplace(rounded, Unrounded{wide, facts->stage});
    return rounded;
  }

 private:
  struct Facts {
    int stage = 0;
    bool computes = false;
    bool is_inexact = false;  // no value of its short dtype before it is rounded
    bool takes_part = false;  // reads an unrounded value, or is read unrounded
  };
  struct Unrounded {
    Instruction* value = nullptr;
    int stage = 0;
  };

  // In the order of the schedule: operands first.
  void note(const Instruction& instruction) {
    Facts& facts = facts_.at(&instruction);
    for (const Instruction* operand : instruction.operands()) {
      facts.stage = std::max(facts.stage, facts_.at(operand).stage);
    }
    switch (ir::op_info(instruction.opcode()).op_class) {
      case OpClass::unary:
      case OpClass::binary:
      case OpClass::ternary:
      case OpClass::creation:
      case OpClass::movement:
      case OpClass::structure:
        break;
      default:
        facts.stage += 1;
    }
    facts.computes = computes(instruction) && instruction.control_predecessors().empty() &&
                     instruction.control_successors().empty();
    if (!facts.computes || !is_short(instruction.shape())) return;
    facts.is_inexact =
        rounds(instruction.opcode()) ||
        std::any_of(instruction.operands().begin(), instruction.operands().end(),
                    [&](const Instruction* operand) { return hands_on(*operand, facts); }) ||
        std::any_of(instruction.operands().begin(), instruction.operands().end(),
                    [](const Instruction* operand) {
                      return ir::is_floating(operand->shape().dtype()) &&
                             !is_short(operand->shape());
                    });
  }

  // Whether `operand` is handed unrounded to a reader.
  bool hands_on(const Instruction& operand, const Facts& reader) const {
    const Facts& facts = facts_.at(&operand);
    return reader.computes && facts.computes && facts.is_inexact && facts.stage == reader.stage;
  }

  void choose(const Instruction& instruction) {
    Facts& facts = facts_.at(&instruction);
    if (!facts.computes) return;
    for (const Instruction* operand : instruction.operands()) {
      if (!hands_on(*operand, facts)) continue;
      facts.takes_part = true;
      facts_.at(operand).takes_part = true;
    }
  }

  // The operand of something at `stage`, in f32 if it was in a short dtype.
  Instruction* unrounded(Rewriter& rewriter, Instruction& operand, int stage) {
    if (!is_short(operand.shape())) return &operand;
    const Unrounded* known = unrounded_.find(&operand);
    if (known != nullptr && known->stage == stage) return known->value;
    return rewriter.add(Opcode::convert, widened(operand.shape()), {&operand});
  }

  PointerMap<Instruction, Facts> facts_;
  PointerMap<Instruction, Unrounded> unrounded_;  // by what stands for the rounded value
};

}  // namespace

Result<bool> keep_excess_precision(ir::Module& module) {
  bool changed = false;
  for (ir::Computation* computation : programs_of(module)) {
    Chains chains(*computation);
    Rewriter rewriter(*computation);
    PLIMSOLL_ASSIGN_OR_RETURN(const bool rewritten,
                              rewriter.sweep([&](Rewriter& sweeping, Instruction& at) {
                                return chains.rewrite(sweeping, at);
                              }));
    changed = changed || rewritten;
  }
  return changed;
}

}  // namespace plimsoll::passes
