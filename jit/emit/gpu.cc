// SPDX-License-Identifier: Apache-2.0
#include "jit/emit/gpu.h"

#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>

#include <array>
#include <vector>

#include "jit/emit/vector_math.h"
#include "runtime/base/math/huge_argument.h"
#include "runtime/base/math/trigonometric64.h"

namespace plimsoll::jit::gpu {
namespace {

using llvm::Value;
using Builder = llvm::IRBuilderBase;
using Quarter = math::f64::parts::Quarter<EmittedF64, EmittedI64>;

constexpr const char* kGpu = "plimsoll.gpu";
constexpr int kHasBf16 = 80;

// `f` of a scalar, or of each lane of a vector, whose results are of type `element`.
template <typename F>
Value* of_lanes(Builder& b, Value* x, llvm::Type* element, F f) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  if (vector == nullptr) return f(x);
  const unsigned lanes = vector->getNumElements();
  Value* result = llvm::PoisonValue::get(llvm::FixedVectorType::get(element, lanes));
  for (unsigned lane = 0; lane < lanes; ++lane) {
    result = b.CreateInsertElement(result, f(b.CreateExtractElement(x, lane)), lane);
  }
  return result;
}

// 64 bits of 2/pi from bit `first` after the point on; the table begins with a word of zeros, so
// `first` may be down to -64.
Value* bits_at(Builder& b, llvm::GlobalVariable* table, Value* first) {
  Value* place = b.CreateAdd(first, b.getInt64(64));
  Value* word = b.CreateLShr(place, 6);
  const auto load = [&](Value* i) {
    return b.CreateLoad(b.getInt64Ty(), b.CreateInBoundsGEP(b.getInt64Ty(), table, i));
  };
  return b.CreateIntrinsic(
      llvm::Intrinsic::fshl, {b.getInt64Ty()},
      {load(word), load(b.CreateAdd(word, b.getInt64(1))), b.CreateAnd(place, b.getInt64(63))});
}

llvm::GlobalVariable* table_of_two_over_pi(llvm::Module& module) {
  constexpr const char* kName = "two_over_pi";
  if (auto* table = module.getNamedGlobal(kName)) return table;
  std::vector<std::uint64_t> words(1, 0);
  words.insert(words.end(), math::kTwoOverPi.begin(), math::kTwoOverPi.end());
  auto* data = llvm::ConstantDataArray::get(module.getContext(), words);
  return new llvm::GlobalVariable(module, data->getType(), true, llvm::GlobalValue::InternalLinkage,
                                  data, kName);
}

// runtime/base/math/huge_argument.cc's `reduce` without its loops, for finite |x| >= 1.
Quarter reduce(Builder& b, llvm::Module& module, Value* x) {
  llvm::GlobalVariable* table = table_of_two_over_pi(module);
  llvm::Type* i64 = b.getInt64Ty();
  llvm::Type* i128 = b.getInt128Ty();
  Value* bits = b.CreateBitCast(x, i64);
  Value* biased = b.CreateAnd(b.CreateLShr(bits, 52), b.getInt64(0x7ff));
  Value* mantissa = b.CreateOr(b.CreateAnd(bits, b.getInt64(0xfffffffffffff)),
                               b.getInt64(std::uint64_t{1} << 52));
  // Lanes that nobody asks for may be smaller.
  biased = b.CreateBinaryIntrinsic(llvm::Intrinsic::umax, biased, b.getInt64(1023));
  Value* first = b.CreateSub(biased, b.getInt64(1077));
  std::array<Value*, 4> product{};
  Value* carry = llvm::Constant::getNullValue(i128);
  for (std::size_t i = 4; i-- > 0;) {
    Value* part = bits_at(b, table, b.CreateAdd(first, b.getInt64(64 * i)));
    carry = b.CreateAdd(carry, b.CreateMul(b.CreateZExt(mantissa, i128), b.CreateZExt(part, i128)));
    product[i] = b.CreateTrunc(carry, i64);
    carry = b.CreateLShr(carry, 64);
  }
  Value* quadrant = b.CreateLShr(product[0], 62);
  const auto joined = [&](Value* high, Value* low, Value* shift) {
    return b.CreateIntrinsic(llvm::Intrinsic::fshl, {i64}, {high, low, shift});
  };
  std::array<Value*, 3> fraction{};
  for (std::size_t i = 0; i < 3; ++i) {
    fraction[i] = joined(product[i], product[i + 1], b.getInt64(2));
  }
  Value* up = b.CreateICmpSLT(fraction[0], b.getInt64(0));
  quadrant = b.CreateAdd(quadrant, b.CreateZExt(up, i64));
  Value* borrow = b.getInt64(1);  // the two's complement
  for (std::size_t i = 3; i-- > 0;) {
    Value* negated = b.CreateAdd(b.CreateNot(fraction[i]), borrow);
    borrow = b.CreateAnd(borrow, b.CreateZExt(b.CreateIsNull(negated), i64));
    fraction[i] = b.CreateSelect(up, negated, fraction[i]);
  }
  // From the first set bit on, at most 128 places further: by words, then by bits.
  Value* zeros = b.getInt64(0);
  Value* none = b.getInt64(0);
  for (int word = 0; word < 2; ++word) {
    Value* empty = b.CreateIsNull(fraction[0]);
    zeros = b.CreateAdd(zeros, b.CreateSelect(empty, b.getInt64(64), none));
    fraction = {b.CreateSelect(empty, fraction[1], fraction[0]),
                b.CreateSelect(empty, fraction[2], fraction[1]),
                b.CreateSelect(empty, none, fraction[2])};
  }
  Value* shift = b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, fraction[0], b.getFalse());
  Value* whole = b.CreateICmpEQ(zeros, b.getInt64(128));
  shift = b.CreateSelect(whole, none, shift);
  fraction[0] = joined(fraction[0], fraction[1], shift);
  fraction[1] = joined(fraction[1], fraction[2], shift);
  zeros = b.CreateAdd(zeros, shift);

  const auto number = [&](Value* value) { return EmittedF64{{&b, value}}; };
  const auto scaled = [&](Value* word, double by) {
    Value* converted = b.CreateUIToFP(b.CreateLShr(word, 11), b.getDoubleTy());
    return number(b.CreateFMul(converted, llvm::ConstantFP::get(b.getDoubleTy(), by)));
  };
  const EmittedF64 scale = math::f64::parts::power_of_two(EmittedI64{{&b, b.CreateNeg(zeros)}});
  const EmittedF64 high = scaled(fraction[0], 0x1p-53) * scale;
  const EmittedF64 low = scaled(joined(fraction[0], fraction[1], b.getInt64(53)), 0x1p-106) * scale;
  const auto turn = math::multiply<EmittedF64>(
      {high, low}, {like(high, 0x1.921fb54442d18p+0), like(high, 0x1.1a62633145c07p-54)});
  auto angle = math::fast_two_sum(turn.high, turn.low);
  Value* below = b.CreateICmpSLT(bits, b.getInt64(0));
  quadrant = b.CreateSelect(below, b.CreateNeg(quadrant), quadrant);
  const EmittedMask negative{{&b, b.CreateXor(up, below)}};
  angle = {select(negative, -angle.high, angle.high), select(negative, -angle.low, angle.low)};
  return {{{&b, quadrant}}, angle};
}

// A loop of one subtraction a bit of the quotient: there is no exact way by division.
void write_remainder(llvm::IRBuilder<>& b, llvm::Function* function) {
  Value* x = function->getArg(0);
  Value* y = function->getArg(1);
  llvm::LLVMContext& context = b.getContext();
  const bool wide = x->getType()->isDoubleTy();
  const unsigned fraction_bits = wide ? 52 : 23, width = wide ? 64 : 32;
  llvm::Type* word = b.getIntNTy(width);
  const std::uint64_t sign_bit = std::uint64_t{1} << (width - 1);
  const std::uint64_t infinity = wide ? 0x7ff0000000000000 : 0x7f800000;
  const auto n = [&](std::uint64_t value) { return llvm::ConstantInt::get(word, value); };
  const auto block = [&](const char* name) {
    return llvm::BasicBlock::Create(context, name, function);
  };
  auto* entry = block("entry");
  auto* special = block("special");
  auto* ordered = block("ordered");
  auto* smaller = block("smaller");
  auto* divide = block("divide");
  auto* loop = block("loop");
  auto* done = block("done");

  b.SetInsertPoint(entry);
  Value* x_bits = b.CreateBitCast(x, word);
  Value* sign = b.CreateAnd(x_bits, n(sign_bit));
  Value* a = b.CreateAnd(x_bits, n(sign_bit - 1));
  Value* d = b.CreateAnd(b.CreateBitCast(y, word), n(sign_bit - 1));
  Value* has_none = b.CreateOr(b.CreateIsNull(d), b.CreateICmpUGE(a, n(infinity)));
  has_none = b.CreateOr(has_none, b.CreateICmpUGT(d, n(infinity)));
  b.CreateCondBr(has_none, special, ordered);
  b.SetInsertPoint(special);
  b.CreateRet(llvm::ConstantFP::getNaN(x->getType()));
  b.SetInsertPoint(ordered);
  b.CreateCondBr(b.CreateICmpULT(a, d), smaller, divide);
  b.SetInsertPoint(smaller);
  b.CreateRet(x);

  // |v| = mantissa * 2^(exponent - bias), with the highest bit of the mantissa at `fraction_bits`.
  b.SetInsertPoint(divide);
  const auto split = [&](Value* v) {
    Value* biased = b.CreateLShr(v, fraction_bits);
    Value* fraction = b.CreateAnd(v, n((std::uint64_t{1} << fraction_bits) - 1));
    Value* subnormal = b.CreateIsNull(biased);
    Value* shift =
        b.CreateSub(b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, fraction, b.getFalse()),
                    n(width - 1 - fraction_bits));
    shift = b.CreateSelect(subnormal, shift, n(0));
    Value* whole = b.CreateOr(fraction, n(std::uint64_t{1} << fraction_bits));
    Value* mantissa = b.CreateSelect(subnormal, b.CreateShl(fraction, shift), whole);
    Value* exponent = b.CreateSelect(subnormal, b.CreateSub(n(1), shift), biased);
    return std::pair{mantissa, exponent};
  };
  const auto [dividend, high] = split(a);
  const auto [divisor, low] = split(d);
  b.CreateBr(loop);

  b.SetInsertPoint(loop);
  auto* rest = b.CreatePHI(word, 2);
  auto* exponent = b.CreatePHI(word, 2);
  rest->addIncoming(dividend, divide);
  exponent->addIncoming(high, divide);
  Value* lower = b.CreateSub(rest, divisor);
  Value* reduced = b.CreateSelect(b.CreateICmpUGE(rest, divisor), lower, rest);
  Value* is_last = b.CreateICmpSLE(exponent, low);
  rest->addIncoming(b.CreateShl(reduced, 1), loop);
  exponent->addIncoming(b.CreateSub(exponent, n(1)), loop);
  b.CreateCondBr(is_last, done, loop);

  // Back to a number with the divisor's exponent, or a lower one.
  b.SetInsertPoint(done);
  Value* shift = b.CreateSub(b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, reduced, b.getFalse()),
                             n(width - 1 - fraction_bits));
  Value* own = b.CreateSub(low, shift);
  Value* normal = b.CreateOr(
      b.CreateAnd(b.CreateShl(reduced, shift), n((std::uint64_t{1} << fraction_bits) - 1)),
      b.CreateShl(own, fraction_bits));
  // With `low` at least 1 that many places are left before the mantissa is a subnormal's; below 1
  // it has been moved up, and goes down again.
  Value* up = b.CreateSub(low, n(1));
  Value* moves_up = b.CreateICmpSGE(up, n(0));
  Value* raised = b.CreateShl(reduced, b.CreateSelect(moves_up, up, n(0)));
  Value* lowered = b.CreateLShr(reduced, b.CreateSelect(moves_up, n(0), b.CreateNeg(up)));
  Value* subnormal = b.CreateSelect(moves_up, raised, lowered);
  Value* magnitude = b.CreateSelect(b.CreateICmpSGE(own, n(1)), normal, subnormal);
  magnitude = b.CreateSelect(b.CreateIsNull(reduced), n(0), magnitude);
  b.CreateRet(b.CreateBitCast(b.CreateOr(magnitude, sign), x->getType()));
}

llvm::Function* remainder_function(llvm::Module& module, llvm::Type* type) {
  const char* name = type->isDoubleTy() ? "remainder_f64" : "remainder_f32";
  if (auto* known = module.getFunction(name)) return known;
  auto* function = llvm::Function::Create(llvm::FunctionType::get(type, {type, type}, false),
                                          llvm::Function::InternalLinkage, name, module);
  function->setDoesNotThrow();
  llvm::IRBuilder<> b(module.getContext());
  write_remainder(b, function);
  return function;
}

}  // namespace

void allow(llvm::Module& module, int compute_capability) {
  llvm::LLVMContext& context = module.getContext();
  auto* number = llvm::ConstantInt::getSigned(llvm::Type::getInt32Ty(context), compute_capability);
  module.getOrInsertNamedMetadata(kGpu)->addOperand(
      llvm::MDNode::get(context, {llvm::ConstantAsMetadata::get(number)}));
}

int compute_capability(const llvm::Module& module) {
  const auto* known = module.getNamedMetadata(kGpu);
  if (known == nullptr) return 0;
  const auto* number =
      llvm::mdconst::extract<llvm::ConstantInt>(known->getOperand(0)->getOperand(0));
  return static_cast<int>(number->getSExtValue());
}

bool is_target(Builder& b) {
  return b.GetInsertBlock()->getModule()->getNamedMetadata(kGpu) != nullptr;
}

// One instruction rounds two numbers, and packs them.
Value* narrow_bf16(Builder& b, Value* x) {
  if (compute_capability(*b.GetInsertBlock()->getModule()) < kHasBf16) return nullptr;
  const auto pair = [&](Value* low, Value* high) {
    Value* both = b.CreateIntrinsic(llvm::Intrinsic::nvvm_ff2bf16x2_rn, {}, {high, low});
    return b.CreateBitCast(both, b.getInt32Ty());
  };
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  if (vector == nullptr) {
    Value* one = b.CreateIntrinsic(llvm::Intrinsic::nvvm_f2bf16_rn, {}, {x});
    return b.CreateBitCast(one, b.getInt16Ty());
  }
  const unsigned lanes = vector->getNumElements();
  const unsigned words = (lanes + 1) / 2;
  Value* packed = llvm::PoisonValue::get(llvm::FixedVectorType::get(b.getInt32Ty(), words));
  for (unsigned i = 0; i < words; ++i) {
    Value* low = b.CreateExtractElement(x, std::uint64_t{2} * i);
    Value* high = 2 * i + 1 < lanes ? b.CreateExtractElement(x, std::uint64_t{2} * i + 1) : low;
    packed = b.CreateInsertElement(packed, pair(low, high), i);
  }
  auto* halves = llvm::FixedVectorType::get(b.getInt16Ty(), 2 * words);
  Value* result = b.CreateBitCast(packed, halves);
  if (2 * words == lanes) return result;
  std::vector<int> first(lanes);
  for (unsigned i = 0; i < lanes; ++i) first[i] = static_cast<int>(i);
  return b.CreateShuffleVector(result, first);
}

Value* narrow_f16(Builder& b, Value* x) {
  if (!is_target(b)) return nullptr;
  return of_lanes(b, x, b.getInt16Ty(), [&](Value* lane) {
    return b.CreateIntrinsic(llvm::Intrinsic::convert_to_fp16, {b.getFloatTy()}, {lane});
  });
}

// Two lie in 32 bits: the lower one is shifted up, the upper one stays where it is.
Value* widen_bf16(Builder& b, Value* x) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  if (vector == nullptr || vector->getNumElements() % 2 != 0 || !is_target(b)) return nullptr;
  const unsigned lanes = vector->getNumElements();
  Value* pairs = b.CreateBitCast(x, llvm::FixedVectorType::get(b.getInt32Ty(), lanes / 2));
  Value* bits = llvm::PoisonValue::get(llvm::FixedVectorType::get(b.getInt32Ty(), lanes));
  for (unsigned i = 0; i < lanes; i += 2) {
    Value* pair = b.CreateExtractElement(pairs, std::uint64_t{i / 2});
    bits = b.CreateInsertElement(bits, b.CreateShl(pair, 16), i);
    bits = b.CreateInsertElement(bits, b.CreateAnd(pair, b.getInt32(0xffff0000)), i + 1);
  }
  return b.CreateBitCast(bits, llvm::FixedVectorType::get(b.getFloatTy(), lanes));
}

Value* widen_f16(Builder& b, Value* x) {
  if (!is_target(b)) return nullptr;
  return of_lanes(b, x, b.getFloatTy(), [&](Value* lane) {
    return b.CreateIntrinsic(llvm::Intrinsic::convert_from_fp16, {b.getFloatTy()}, {lane});
  });
}

llvm::Function* huge_argument_function(llvm::Module& module, llvm::StringRef symbol) {
  if (auto* known = module.getFunction(symbol)) return known;
  llvm::Type* real = llvm::Type::getDoubleTy(module.getContext());
  auto* function = llvm::Function::Create(llvm::FunctionType::get(real, {real}, false),
                                          llvm::Function::InternalLinkage, symbol, module);
  function->setDoesNotThrow();
  function->addFnAttr(llvm::Attribute::NoInline);
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(module.getContext(), "entry", function));
  Value* x = function->getArg(0);
  const Quarter quarter = reduce(b, module, x);
  EmittedF64 result;
  if (symbol == math::kTangentOfHuge.symbol) {
    result = math::f64::parts::tangent_of_quarter(quarter.angle, quarter.quadrant);
  } else {
    EmittedI64 quadrant = quarter.quadrant;
    if (symbol == math::kCosineOfHuge.symbol) quadrant = quadrant + like(quadrant, std::int64_t{1});
    result = math::f64::parts::sine_of_quarter(quarter.angle, quadrant);
  }
  Value* finite = b.CreateFCmpOLT(b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x),
                                  llvm::ConstantFP::getInfinity(real));
  b.CreateRet(b.CreateSelect(finite, result.value, llvm::ConstantFP::getNaN(real)));
  return function;
}

Value* remainder(Builder& b, Value* x, Value* y) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  llvm::Function* function =
      remainder_function(*b.GetInsertBlock()->getModule(), x->getType()->getScalarType());
  if (vector == nullptr) return b.CreateCall(function, {x, y});
  Value* result = llvm::PoisonValue::get(vector);
  for (unsigned lane = 0; lane < vector->getNumElements(); ++lane) {
    Value* one =
        b.CreateCall(function, {b.CreateExtractElement(x, lane), b.CreateExtractElement(y, lane)});
    result = b.CreateInsertElement(result, one, lane);
  }
  return result;
}

}  // namespace plimsoll::jit::gpu
