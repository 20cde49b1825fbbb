// SPDX-License-Identifier: Apache-2.0
#include "jit/emit/elementwise.h"

#include "jit/emit/vector_math.h"
#include "jit/emit/vector_numbers.h"
#include "runtime/base/math/bfloat16.h"
#include "runtime/base/math/float16.h"

namespace plimsoll::jit {
namespace {

using ir::DType;
using ir::Opcode;
using llvm::Value;
using Builder = llvm::IRBuilderBase;

Value* float_bits(Builder& b, Value* value) {
  llvm::Type* type = b.getIntNTy(bits_of_type(value));
  return b.CreateBitCast(value, Emitted{nullptr, value}.as_wide(type));
}

Value* reduce_precision(Builder& b, Value* x, int exponent, int mantissa, int to_exponent,
                        int to_mantissa) {
  const auto size = static_cast<unsigned>(1 + exponent + mantissa);
  Value* bits = float_bits(b, x);
  const auto word = [&](std::uint64_t n) { return llvm::ConstantInt::get(bits->getType(), n); };
  const std::uint64_t sign = std::uint64_t{1} << (size - 1);
  const std::uint64_t infinity = ((std::uint64_t{1} << exponent) - 1) << mantissa;
  Value* magnitude = b.CreateAnd(bits, word(sign - 1));
  Value* is_nan = b.CreateICmpUGT(magnitude, word(infinity));
  Value* result = bits;
  if (to_mantissa < mantissa) {
    const int dropped = mantissa - to_mantissa;
    const std::uint64_t last = std::uint64_t{1} << dropped;
    Value* odd =
        b.CreateAnd(b.CreateLShr(bits, word(static_cast<std::uint64_t>(dropped))), word(1));
    result = b.CreateAdd(result, b.CreateAdd(odd, word((last >> 1) - 1)));
    result = b.CreateAnd(result, word(~(last - 1)));
  }
  if (to_exponent < exponent) {
    const std::uint64_t bias = (std::uint64_t{1} << (exponent - 1)) - 1;
    const std::uint64_t reduced = (std::uint64_t{1} << (to_exponent - 1)) - 1;
    Value* own = b.CreateAnd(result, word(infinity));
    Value* sign_bit = b.CreateAnd(bits, word(sign));
    Value* overflows = b.CreateICmpUGT(own, word((bias + reduced) << mantissa));
    Value* underflows = b.CreateICmpULE(own, word((bias - reduced) << mantissa));
    result = b.CreateSelect(overflows, b.CreateOr(sign_bit, word(infinity)), result);
    result = b.CreateSelect(underflows, sign_bit, result);
  }
  return b.CreateBitCast(b.CreateSelect(is_nan, bits, result), x->getType());
}

// Functions of 16-bit floats that do less than those of f32.
bool has_own_function(Opcode opcode, DType dtype) {
  if (dtype != DType::bf16 && dtype != DType::f16) return false;
  return opcode == Opcode::exponential || opcode == Opcode::tanh || opcode == Opcode::logistic ||
         opcode == Opcode::erf || opcode == Opcode::log;
}

EmittedF32 bf16_function(Opcode opcode, EmittedF32 x) {
  switch (opcode) {
    case Opcode::exponential:
      return math::bf16::exp(x);
    case Opcode::tanh:
      return math::bf16::tanh(x);
    case Opcode::logistic:
      return math::bf16::logistic(x);
    case Opcode::erf:
      return math::bf16::erf(x);
    default:
      return math::bf16::log(x);
  }
}

EmittedF32 f16_function(Opcode opcode, EmittedF32 x) {
  switch (opcode) {
    case Opcode::exponential:
      return math::f16::exp(x);
    case Opcode::tanh:
      return math::f16::tanh(x);
    case Opcode::logistic:
      return math::f16::logistic(x);
    case Opcode::erf:
      return math::f16::erf(x);
    default:
      return math::f16::log(x);
  }
}

Value* float_unary(Builder& b, const ir::Instruction& instruction, Value* x, DType dtype) {
  if (has_own_function(instruction.opcode(), dtype)) {
    const EmittedF32 wide{{&b, x}};
    return (dtype == DType::bf16 ? bf16_function(instruction.opcode(), wide)
                                 : f16_function(instruction.opcode(), wide))
        .value;
  }
  if (instruction.opcode() != Opcode::reduce_precision) {
    return emit_function(b, instruction.opcode(), {x}, dtype);
  }
  const auto& attributes = instruction.attributes();
  const bool wide = dtype == DType::f64;
  return reduce_precision(b, x, wide ? 11 : 8, wide ? 52 : 23, attributes.exponent_bits,
                          attributes.mantissa_bits);
}

llvm::CmpInst::Predicate predicate_of(ir::ComparisonDirection direction, bool is_float,
                                      bool is_signed) {
  using Direction = ir::ComparisonDirection;
  using Predicate = llvm::CmpInst::Predicate;
  switch (direction) {
    case Direction::eq:
      return is_float ? Predicate::FCMP_OEQ : Predicate::ICMP_EQ;
    case Direction::ne:
      return is_float ? Predicate::FCMP_UNE : Predicate::ICMP_NE;
    case Direction::ge:
      return is_float ? Predicate::FCMP_OGE : is_signed ? Predicate::ICMP_SGE : Predicate::ICMP_UGE;
    case Direction::gt:
      return is_float ? Predicate::FCMP_OGT : is_signed ? Predicate::ICMP_SGT : Predicate::ICMP_UGT;
    case Direction::le:
      return is_float ? Predicate::FCMP_OLE : is_signed ? Predicate::ICMP_SLE : Predicate::ICMP_ULE;
    case Direction::lt:
      return is_float ? Predicate::FCMP_OLT : is_signed ? Predicate::ICMP_SLT : Predicate::ICMP_ULT;
  }
  return Predicate::ICMP_EQ;
}

// An integer that orders as the total order of the float does: the magnitude bits of negative
// numbers are flipped.
Value* total_order_key(Builder& b, Value* x) {
  Value* bits = float_bits(b, x);
  const unsigned size = bits_of_type(bits);
  Value* negative = b.CreateAShr(bits, number(bits, size - 1));
  return b.CreateXor(bits, b.CreateLShr(negative, number(bits, 1)));
}

Value* compare(Builder& b, const ir::Instruction& instruction, Value* x, Value* y, DType dtype) {
  const auto& attributes = instruction.attributes();
  const bool is_float = ir::is_floating(dtype);
  if (is_float && attributes.comparison_order == ir::ComparisonOrder::total) {
    return b.CreateICmp(predicate_of(attributes.comparison_direction, false, true),
                        total_order_key(b, x), total_order_key(b, y));
  }
  const bool is_signed = ir::dtype_class(dtype) == ir::DTypeClass::signed_int;
  const auto predicate = predicate_of(attributes.comparison_direction, is_float, is_signed);
  if (!is_float) return b.CreateICmp(predicate, x, y);
  return b.CreateFCmp(predicate, widen_to_float(b, x, dtype), widen_to_float(b, y, dtype));
}

Value* bitcast_convert(Builder& b, Value* x, DType from, DType to) {
  Value* bits = to_memory(b, x, from);
  bits = b.CreateBitCast(bits, Emitted{nullptr, bits}.as_wide(memory_type(b.getContext(), to, 1)));
  return to_register(b, bits, to);
}

// Operations on a 16-bit float that only touch bits, so that they need no rounding.
Value* small_float_unary(Builder& b, Opcode opcode, Value* x) {
  if (opcode == Opcode::negate) return b.CreateXor(x, number(x, -0x8000));
  if (opcode == Opcode::abs) return b.CreateAnd(x, number(x, 0x7fff));
  return nullptr;
}

Origin origin_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::add:
    case Opcode::subtract:
    case Opcode::multiply:
    case Opcode::divide:
    case Opcode::sqrt:
      return Origin::arithmetic;
    case Opcode::maximum:
    case Opcode::minimum:
      return Origin::operand;
    default:
      return Origin::any;
  }
}

// Operands and result of one dtype.
Value* emit_uniform(Builder& b, const ir::Instruction& instruction,
                    const std::vector<Value*>& operands, DType dtype) {
  const Opcode opcode = instruction.opcode();
  if (opcode == Opcode::clamp) {
    Value* raised = emit_binary(b, Opcode::maximum, operands[0], operands[1], dtype);
    return emit_binary(b, Opcode::minimum, raised, operands[2], dtype);
  }
  if (operands.size() == 2) return emit_binary(b, opcode, operands[0], operands[1], dtype);
  if (!ir::is_floating(dtype)) return emit_function(b, opcode, operands, dtype);
  if (ir::dtype_bytes(dtype) == 2) {
    if (Value* result = small_float_unary(b, opcode, operands[0])) return result;
  }
  const Origin origin = has_own_function(opcode, dtype) ? Origin::arithmetic : origin_of(opcode);
  return compute_as_float(b, operands, dtype, origin, [&](llvm::ArrayRef<Value*> x) {
    return float_unary(b, instruction, x[0], dtype);
  });
}

}  // namespace

Value* emit_binary(Builder& b, Opcode opcode, Value* x, Value* y, DType dtype) {
  if (!ir::is_floating(dtype)) return emit_function(b, opcode, {x, y}, dtype);
  return compute_as_float(b, {x, y}, dtype, origin_of(opcode), [&](llvm::ArrayRef<Value*> wide) {
    return emit_function(b, opcode, wide, dtype);
  });
}

Value* emit_elementwise(Builder& b, const ir::Instruction& instruction,
                        std::vector<Value*> operands, std::vector<DType> dtypes) {
  const Opcode opcode = instruction.opcode();
  const DType dtype = instruction.shape().dtype();
  // Mixed precision happens in the widest float among the operands and the result.
  const auto unify = [&](std::size_t first, DType meet) {
    for (std::size_t i = first; i < operands.size(); ++i) {
      if (dtypes[i] == meet || !ir::is_floating(dtypes[i]) || !ir::is_floating(meet)) continue;
      meet = dtypes[i] == DType::f64 || meet == DType::f64 ? DType::f64 : DType::f32;
    }
    for (std::size_t i = first; i < operands.size(); ++i) {
      operands[i] = emit_convert(b, operands[i], dtypes[i], meet);
    }
    return meet;
  };
  switch (opcode) {
    case Opcode::convert:
      return emit_convert(b, operands[0], dtypes[0], dtype);
    case Opcode::bitcast_convert:
      return bitcast_convert(b, operands[0], dtypes[0], dtype);
    case Opcode::copy:
      return emit_convert(b, operands[0], dtypes[0], dtype);
    case Opcode::select: {
      const DType meet = unify(1, dtype);
      Value* chosen = b.CreateSelect(operands[0], operands[1], operands[2]);
      return emit_convert(b, chosen, meet, dtype);
    }
    case Opcode::compare: {
      const DType meet = unify(0, dtypes[0]);
      return compare(b, instruction, operands[0], operands[1], meet);
    }
    case Opcode::is_finite: {
      if (!ir::is_floating(dtypes[0])) {
        return llvm::ConstantInt::getTrue(Emitted{nullptr, operands[0]}.as_wide(b.getInt1Ty()));
      }
      Value* x = widen_to_float(b, operands[0], dtypes[0]);
      return b.CreateFCmpOLT(b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x),
                             llvm::ConstantFP::getInfinity(x->getType()));
    }
    default:
      break;
  }
  const DType meet = unify(0, dtype);
  Value* result = emit_uniform(b, instruction, operands, meet);
  return result == nullptr ? nullptr : emit_convert(b, result, meet, dtype);
}

}  // namespace plimsoll::jit
