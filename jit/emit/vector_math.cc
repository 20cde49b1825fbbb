// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/Constants.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include <cmath>
#include <string>

#include "jit/emit/avx512.h"
#include "jit/emit/elementwise.h"
#include "jit/emit/gpu.h"
#include "jit/emit/vector_math.h"
#include "jit/emit/vector_numbers.h"
#include "runtime/base/math/binary.h"
#include "runtime/base/math/huge_argument.h"

namespace plimsoll::jit {
namespace {

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

}  // namespace

Value* call_own_function(const char* name, Emitted x,
                         llvm::function_ref<Value*(Builder&, Value*)> emit) {
  llvm::Module* module = x.builder->GetInsertBlock()->getModule();
  const std::string symbol = std::string(name) + "." + type_name(x.type());
  llvm::Function* function = module->getFunction(symbol);
  if (function == nullptr) {
    auto* type = llvm::FunctionType::get(x.type(), {x.type()}, false);
    function = llvm::Function::Create(type, llvm::Function::InternalLinkage, symbol, module);
    function->setDoesNotThrow();
    function->addFnAttr(llvm::Attribute::AlwaysInline);
    llvm::IRBuilder<> own(llvm::BasicBlock::Create(module->getContext(), "entry", function));
    own.CreateRet(emit(own, function->getArg(0)));
  }
  return x.builder->CreateCall(function, {x.value});
}

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
  llvm::FunctionCallee callee;
  if (gpu::is_target(b)) {
    callee = gpu::huge_argument_function(*common->getModule(), function.symbol);
  } else {
    callee = common->getModule()->getOrInsertFunction(
        function.symbol, llvm::FunctionType::get(b.getDoubleTy(), {b.getDoubleTy()}, false));
  }
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

bool underflows_slowly(const Emitted& a) { return !gpu::is_target(*a.builder); }

EmittedF32 times_power(EmittedF32 a, EmittedF32 n) {
  Value* result = avx512::times_power(*a.builder, a.value, n.value);
  return result == nullptr ? math::times_two_powers(a, n) : EmittedF32{{a.builder, result}};
}

EmittedF32 fraction(EmittedF32 t) {
  Value* result = avx512::fraction(*t.builder, t.value);
  return result == nullptr ? math::plain::fraction(t) : EmittedF32{{t.builder, result}};
}

EmittedF32 times_power_of_floor(EmittedF32 a, EmittedF32 t) {
  // The instruction takes the floor by itself.
  Value* result = avx512::times_power(*a.builder, a.value, t.value);
  return result == nullptr ? math::plain::times_power_of_floor(a, t)
                           : EmittedF32{{a.builder, result}};
}

EmittedF32 exponent(EmittedF32 x) {
  Value* result = avx512::exponent(*x.builder, x.value);
  return result == nullptr ? math::plain::exponent(x) : EmittedF32{{x.builder, result}};
}

EmittedF32 significand(EmittedF32 x) {
  Value* result = avx512::significand(*x.builder, x.value, false);
  return result == nullptr ? math::plain::significand(x) : EmittedF32{{x.builder, result}};
}

EmittedF32 significand_about_one(EmittedF32 x) {
  Value* result = avx512::significand(*x.builder, x.value, true);
  return result == nullptr ? math::plain::significand_about_one(x)
                           : EmittedF32{{x.builder, result}};
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
