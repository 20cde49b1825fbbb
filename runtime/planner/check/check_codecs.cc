// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/check/check_codecs.h"

#include <cmath>
#include <limits>

#include "runtime/base/index.h"

namespace plimsoll::planner {
namespace {

using ir::ComparisonDirection;
using ir::DType;
using ir::Instruction;
using ir::Opcode;

// Fusions entered on the way down, the innermost first.
struct Frame {
  const Instruction* fusion = nullptr;
  const Frame* outer = nullptr;
};

// Is every element of the value the number `constant`?
bool is_constant(const Instruction& value, const Frame* frame, double constant) {
  switch (value.opcode()) {
    case Opcode::constant: {
      const ir::Literal* literal = value.attributes().literal.get();
      if (literal == nullptr || literal->is_elided() || !literal->shape().is_array()) return false;
      if (!literal->is_splat()) return false;
      const double number = literal->at(0);
      const bool wide =
          literal->shape().dtype() == DType::s64 || literal->shape().dtype() == DType::u64;
      // at() rounds 64-bit integers that are this large.
      if (wide && std::fabs(number) > 0x1p53) return false;
      return number == constant || (std::isnan(number) && std::isnan(constant));
    }
    case Opcode::parameter:
      return frame != nullptr &&
             is_constant(
                 *frame->fusion->operand(static_cast<int>(value.attributes().parameter_number)),
                 frame->outer, constant);
    case Opcode::broadcast:
    case Opcode::reshape:
    case Opcode::copy:
    case Opcode::transpose:
    case Opcode::slice:
      return is_constant(*value.operand(0), frame, constant);
    default:
      return false;
  }
}

ComparisonDirection opposite(ComparisonDirection direction) {
  switch (direction) {
    case ComparisonDirection::eq:
      return ComparisonDirection::ne;
    case ComparisonDirection::ne:
      return ComparisonDirection::eq;
    case ComparisonDirection::ge:
      return ComparisonDirection::lt;
    case ComparisonDirection::gt:
      return ComparisonDirection::le;
    case ComparisonDirection::le:
      return ComparisonDirection::gt;
    case ComparisonDirection::lt:
      return ComparisonDirection::ge;
  }
  __builtin_unreachable();
}

bool compares_alike(const Instruction& compare, int operand, const Frame* frame,
                    const Codec& codec) {
  const ir::Attributes& attributes = compare.attributes();
  // The total order tells zeros and NaNs apart, which the outcome does not.
  const bool total = attributes.comparison_order == ir::ComparisonOrder::total;
  if (total && ir::is_floating(compare.operand(operand)->shape().dtype())) return false;
  if (!is_constant(*compare.operand(1 - operand), frame, codec.constant)) return false;
  const ComparisonDirection direction = operand == 0
                                            ? attributes.comparison_direction
                                            : ir::mirrored(attributes.comparison_direction);
  if (direction == codec.direction) return true;
  // With a NaN both of two ordered opposites are false; eq and ne are opposites for NaNs too.
  const bool exact = !ir::is_floating(compare.operand(operand)->shape().dtype()) ||
                     direction == ComparisonDirection::eq || direction == ComparisonDirection::ne;
  return exact && direction == opposite(codec.direction);
}

bool uses_only_outcome(const Instruction& value, const Frame* frame, const Codec& codec);

// One use of a value that is known up to its outcome.
bool use_is_outcome(const Instruction& user, int operand, const Frame* frame, const Codec& codec) {
  switch (user.opcode()) {
    case Opcode::compare:
      return compares_alike(user, operand, frame, codec);
    case Opcode::fusion: {
      const Frame inner{&user, frame};
      return uses_only_outcome(*user.to_apply()->parameters()[at(operand)], &inner, codec);
    }
    default:
      return false;
  }
}

// True for operations whose result is made of elements of operand `operand`, and of others that are
// not decided by it.
bool moves(const Instruction& user, int operand) {
  switch (user.opcode()) {
    case Opcode::broadcast:
    case Opcode::reshape:
    case Opcode::transpose:
    case Opcode::slice:
    case Opcode::reverse:
    case Opcode::copy:
    case Opcode::concatenate:
    case Opcode::pad:
      return true;
    case Opcode::dynamic_slice:
    case Opcode::gather:
      return operand == 0;
    case Opcode::select:
      return operand > 0;
    case Opcode::convert: {
      // A wider float has the same number, and NaN for NaN.
      const DType from = user.operand(0)->shape().dtype(), to = user.shape().dtype();
      return ir::is_floating(from) && ir::is_floating(to) &&
             ir::dtype_bytes(from) < ir::dtype_bytes(to);
    }
    default:
      return false;
  }
}

bool uses_only_outcome(const Instruction& value, const Frame* frame, const Codec& codec) {
  if (!value.shape().is_array() || value.is_root()) return false;
  for (const Instruction* user : value.users()) {
    for (int i = 0; i < user->operand_count(); ++i) {
      if (user->operand(i) != &value) continue;
      const bool fine = moves(*user, i) ? uses_only_outcome(*user, frame, codec)
                                        : use_is_outcome(*user, i, frame, codec);
      if (!fine) return false;
    }
  }
  return true;
}

}  // namespace

bool reads_only_outcome(const ir::Instruction& reader, int leaf, const Codec& codec) {
  if (codec.gives_values()) return false;
  for (int i = 0; i < reader.operand_count(); ++i) {
    const int count = ir::leaf_count(reader.operand(i)->shape());
    if (leaf >= count) {
      leaf -= count;
      continue;
    }
    return reader.operand(i)->shape().is_array() && use_is_outcome(reader, i, nullptr, codec);
  }
  return false;
}

}  // namespace plimsoll::planner
