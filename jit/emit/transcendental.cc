// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/math/transcendental.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include <cmath>
#include <string>

#include "jit/emit/avx512.h"
#include "jit/emit/elementwise.h"
#include "jit/emit/vector_math.h"
#include "runtime/base/math/transcendental64.h"

namespace plimsoll::jit {
namespace {

using ir::Opcode;
using llvm::Value;
using Builder = llvm::IRBuilderBase;

double (*const kFmod)(double, double) = std::fmod;
float (*const kFmodf)(float, float) = std::fmod;

RuntimeSymbol symbol_of(const math::LaneFunction& function) {
  return {function.symbol, reinterpret_cast<void*>(function.function)};
}

std::string type_name(llvm::Type* type) {
  std::string name = type->getScalarType()->isDoubleTy() ? "f64" : "f32";
  if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type)) {
    name += "x" + std::to_string(vector->getNumElements());
  }
  return name;
}

// What branches gets a function of its own, which is inlined once all is written: `emit` writes the
// value for a parameter of type T.
template <typename T, typename Emit>
T in_own_function(const char* name, T x, Emit emit) {
  llvm::Module* module = x.builder->GetInsertBlock()->getModule();
  const std::string symbol = std::string(name) + "." + type_name(x.type());
  llvm::Function* function = module->getFunction(symbol);
  if (function == nullptr) {
    auto* type = llvm::FunctionType::get(x.type(), {x.type()}, false);
    function = llvm::Function::Create(type, llvm::Function::InternalLinkage, symbol, module);
    function->setDoesNotThrow();
    function->addFnAttr(llvm::Attribute::AlwaysInline);
    llvm::IRBuilder<> own(llvm::BasicBlock::Create(module->getContext(), "entry", function));
    own.CreateRet(emit(T{{&own, function->getArg(0)}}).value);
  }
  return {{x.builder, x.builder->CreateCall(function, {x.value})}};
}

Value* unary(Opcode opcode, EmittedF32 x) {
  const auto apart = [&](const char* name, auto function) {
    return in_own_function(name, x, function).value;
  };
  switch (opcode) {
    case Opcode::exponential:
      return math::exp(x).value;
    case Opcode::exponential_minus_one:
      return math::expm1(x).value;
    case Opcode::log:
      return math::log(x).value;
    case Opcode::log_plus_one:
      return math::log1p(x).value;
    case Opcode::logistic:
      return math::logistic(x).value;
    case Opcode::tanh:
      return math::tanh(x).value;
    case Opcode::sine:
      return apart("sine", math::sin<EmittedF32>);
    case Opcode::cosine:
      return apart("cosine", math::cos<EmittedF32>);
    case Opcode::tan:
      return apart("tangent", math::tan<EmittedF32>);
    case Opcode::erf:
      return math::erf(x).value;
    case Opcode::rsqrt:
      return math::rsqrt(x).value;
    case Opcode::cbrt:
      return math::cbrt(x).value;
    default:
      return nullptr;
  }
}

Value* unary(Opcode opcode, EmittedF64 x) {
  const auto apart = [&](const char* name, auto function) {
    return in_own_function(name, x, function).value;
  };
  switch (opcode) {
    case Opcode::exponential:
      return math::f64::exp(x).value;
    case Opcode::exponential_minus_one:
      return math::f64::expm1(x).value;
    case Opcode::log:
      return math::f64::log(x).value;
    case Opcode::log_plus_one:
      return math::f64::log1p(x).value;
    case Opcode::logistic:
      return math::f64::logistic(x).value;
    case Opcode::tanh:
      return math::f64::tanh(x).value;
    case Opcode::sine:
      return apart("sine", math::f64::sin<EmittedF64>);
    case Opcode::cosine:
      return apart("cosine", math::f64::cos<EmittedF64>);
    case Opcode::tan:
      return apart("tangent", math::f64::tan<EmittedF64>);
    case Opcode::erf:
      return math::f64::erf(x).value;
    case Opcode::rsqrt:
      return math::f64::rsqrt(x).value;
    case Opcode::cbrt:
      return math::f64::cbrt(x).value;
    default:
      return nullptr;
  }
}

Value* binary(Opcode opcode, EmittedF32 x, EmittedF32 y) {
  if (opcode == Opcode::power) return math::pow(x, y).value;
  if (opcode == Opcode::atan2) return math::atan2(x, y).value;
  return nullptr;
}

Value* binary(Opcode opcode, EmittedF64 x, EmittedF64 y) {
  if (opcode == Opcode::power) return math::f64::pow(x, y).value;
  if (opcode == Opcode::atan2) return math::f64::atan2(x, y).value;
  return nullptr;
}

template <typename T>
Value* of_type(Builder& b, Opcode opcode, const std::vector<Value*>& operands) {
  const T x{{&b, operands[0]}};
  return operands.size() == 1 ? unary(opcode, x) : binary(opcode, x, T{{&b, operands[1]}});
}

}  // namespace

EmittedF64 at_lanes(EmittedMask lanes, EmittedF64 otherwise, const math::LaneFunction& function,
                    EmittedF64 x) {
  Builder& b = *x.builder;
  llvm::LLVMContext& context = b.getContext();
  llvm::BasicBlock* common = b.GetInsertBlock();
  auto* rare = llvm::BasicBlock::Create(context, "rare", common->getParent());
  auto* join = llvm::BasicBlock::Create(context, "join", common->getParent());
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x.type());
  Value* any = vector == nullptr ? lanes.value : b.CreateOrReduce(lanes.value);
  b.CreateCondBr(any, rare, join, llvm::MDBuilder(context).createBranchWeights(1, 1 << 20));

  b.SetInsertPoint(rare);
  llvm::FunctionCallee callee = common->getModule()->getOrInsertFunction(
      function.symbol, llvm::FunctionType::get(b.getDoubleTy(), {b.getDoubleTy()}, false));
  auto* declaration = llvm::cast<llvm::Function>(callee.getCallee());
  declaration->setDoesNotThrow();
  declaration->setDoesNotAccessMemory();
  declaration->setWillReturn();
  Value* values = nullptr;
  if (vector == nullptr) {
    values = b.CreateCall(callee, {x.value});
  } else {
    values = llvm::PoisonValue::get(vector);
    for (unsigned lane = 0; lane < vector->getNumElements(); ++lane) {
      Value* value = b.CreateCall(callee, {b.CreateExtractElement(x.value, lane)});
      values = b.CreateInsertElement(values, value, lane);
    }
  }
  Value* mixed = b.CreateSelect(lanes.value, values, otherwise.value);
  b.CreateBr(join);

  b.SetInsertPoint(join);
  llvm::PHINode* result = b.CreatePHI(x.type(), 2);
  result->addIncoming(otherwise.value, common);
  result->addIncoming(mixed, rare);
  return {{&b, result}};
}

EmittedF32 times_power(EmittedF32 a, EmittedF32 n) {
  Value* result = avx512::times_power(*a.builder, a.value, n.value);
  return result == nullptr ? math::times_two_powers(a, n) : EmittedF32{{a.builder, result}};
}

EmittedF32 lookup(const float (&table)[16], EmittedI32 i) {
  Builder& b = *i.builder;
  llvm::Constant* numbers =
      llvm::ConstantDataVector::get(b.getContext(), llvm::ArrayRef<float>(table));
  if (Value* result = avx512::lookup(b, numbers, i.value)) return {{&b, result}};
  llvm::Module* module = b.GetInsertBlock()->getModule();
  // Equal tables become one.
  auto* array = new llvm::GlobalVariable(
      *module, llvm::ArrayType::get(b.getFloatTy(), 16), true, llvm::GlobalValue::PrivateLinkage,
      llvm::ConstantDataArray::get(b.getContext(), llvm::ArrayRef<float>(table)), "table");
  array->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
  Value* place = b.CreateAnd(i.value, llvm::ConstantInt::get(i.type(), 15));
  Value* address = b.CreateInBoundsGEP(b.getFloatTy(), array, place);
  if (!i.type()->isVectorTy()) return {{&b, b.CreateLoad(b.getFloatTy(), address)}};
  return {{&b, b.CreateMaskedGather(i.as_wide(b.getFloatTy()), address, llvm::Align(4))}};
}

Value* emit_transcendental(Builder& b, Opcode opcode, const std::vector<Value*>& operands) {
  return operands[0]->getType()->getScalarType()->isDoubleTy()
             ? of_type<EmittedF64>(b, opcode, operands)
             : of_type<EmittedF32>(b, opcode, operands);
}

std::span<const RuntimeSymbol> runtime_symbols() {
  static const RuntimeSymbol symbols[] = {
      symbol_of(math::kSineOfHuge),
      symbol_of(math::kCosineOfHuge),
      symbol_of(math::kTangentOfHuge),
      {"fmod", reinterpret_cast<void*>(kFmod)},
      {"fmodf", reinterpret_cast<void*>(kFmodf)},
  };
  return symbols;
}

}  // namespace plimsoll::jit
