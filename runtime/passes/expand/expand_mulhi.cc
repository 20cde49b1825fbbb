// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <utility>

#include "runtime/passes/expand/expansions.h"
#include "runtime/passes/expand/numbers.h"

namespace plimsoll::passes {
namespace {

using ir::Computation;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

// Of twice the width, with the same sign; nothing where there is none.
std::optional<DType> twice(DType dtype) {
  switch (dtype) {
    case DType::s8:
      return DType::s16;
    case DType::s16:
      return DType::s32;
    case DType::s32:
      return DType::s64;
    case DType::u8:
      return DType::u16;
    case DType::u16:
      return DType::u32;
    case DType::u32:
      return DType::u64;
    default:
      return std::nullopt;
  }
}

class HighProduct {
 public:
  explicit HighProduct(Instruction& instruction)
      : to_(*instruction.parent()), shape_(instruction.shape()) {}

  Instruction* by_width(Instruction* a, Instruction* b, DType wide) {
    const Shape shape(wide, shape_.dims());
    Instruction* const product =
        to_.add(Opcode::multiply, shape,
                {to_.add(Opcode::convert, shape, {a}), to_.add(Opcode::convert, shape, {b})});
    const bool is_signed = ir::dtype_class(wide) == ir::DTypeClass::signed_int;
    Instruction* const high =
        to_.add(is_signed ? Opcode::shift_right_arithmetic : Opcode::shift_right_logical, shape,
                {product, number(shape, 8 * ir::dtype_bytes(shape_.dtype()))});
    return to_.add(Opcode::convert, shape_, {high});
  }

  // With a = a1 2^32 + a0 and b alike, all unsigned: a1 b1 + the upper halves of what is added at
  // 2^32, a1 b0 + a0 b1 + the upper half of a0 b0, none of which leaves 64 bits.
  Instruction* by_parts(Instruction* a, Instruction* b) {
    const auto low = [&](Instruction* x) {
      return both(Opcode::and_, x, number(shape_, 0xFFFFFFFF));
    };
    const auto high = [&](Instruction* x) {
      return both(Opcode::shift_right_logical, x, number(shape_, 32));
    };
    Instruction *const a0 = low(a), *const a1 = high(a), *const b0 = low(b), *const b1 = high(b);
    Instruction* const first =
        both(Opcode::add, both(Opcode::multiply, a1, b0), high(both(Opcode::multiply, a0, b0)));
    Instruction* const second = both(Opcode::add, both(Opcode::multiply, a0, b1), low(first));
    Instruction* const product = both(Opcode::add, both(Opcode::multiply, a1, b1),
                                      both(Opcode::add, high(first), high(second)));
    if (shape_.dtype() == DType::u64) return product;
    // A negative number stands for itself and 2^64: the other one was counted once too much.
    const auto excess = [&](Instruction* sign, Instruction* other) {
      return both(Opcode::and_, both(Opcode::shift_right_arithmetic, sign, number(shape_, 63)),
                  other);
    };
    return both(Opcode::subtract, both(Opcode::subtract, product, excess(a, b)), excess(b, a));
  }

 private:
  Instruction* both(Opcode opcode, Instruction* a, Instruction* b) {
    return to_.add(opcode, shape_, {a, b});
  }
  Instruction* number(const Shape& shape, std::int64_t value) {
    return add_number(to_, shape, static_cast<double>(value));
  }

  Computation& to_;
  const Shape shape_;
};

}  // namespace

Expansion expand_mulhi(Instruction& instruction) {
  HighProduct high(instruction);
  const std::optional<DType> wide = twice(instruction.shape().dtype());
  return wide.has_value() ? high.by_width(instruction.operand(0), instruction.operand(1), *wide)
                          : high.by_parts(instruction.operand(0), instruction.operand(1));
}

}  // namespace plimsoll::passes
