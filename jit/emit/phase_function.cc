// SPDX-License-Identifier: Apache-2.0
#include "jit/emit/phase_function.h"

#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

namespace plimsoll::jit {

using llvm::Value;

PhaseFunction PhaseFunction::create(llvm::Module& module, const std::string& name,
                                    llvm::IRBuilder<>& builder) {
  llvm::Type* pointer = builder.getPtrTy();
  llvm::Type* i64 = builder.getInt64Ty();
  auto* type =
      llvm::FunctionType::get(builder.getVoidTy(), {pointer, pointer, pointer, i64, i64}, false);
  PhaseFunction result;
  result.function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module);
  result.function->setDoesNotThrow();
  for (unsigned i = 0; i < 3; ++i) {
    result.function->addParamAttr(i, llvm::Attribute::NoAlias);
  }
  result.function->removeParamAttr(2, llvm::Attribute::NoAlias);
  result.workspace = result.function->getArg(2);
  result.begin = result.function->getArg(3);
  result.end = result.function->getArg(4);
  result.start(builder);
  return result;
}

PhaseFunction PhaseFunction::create_entry(llvm::Module& module, const std::string& name,
                                          llvm::IRBuilder<>& builder, int inputs, int outputs) {
  const std::vector<llvm::Type*> types(static_cast<std::size_t>(inputs + outputs + 1),
                                       builder.getPtrTy());
  PhaseFunction result;
  result.function =
      llvm::Function::Create(llvm::FunctionType::get(builder.getVoidTy(), types, false),
                             llvm::Function::ExternalLinkage, name, module);
  result.function->setDoesNotThrow();
  const auto argument = [&](int i) { return result.function->getArg(static_cast<unsigned>(i)); };
  for (int i = 0; i < inputs; ++i) result.inputs_[i] = argument(i);
  for (int i = 0; i < outputs; ++i) result.outputs_[i] = argument(inputs + i);
  result.workspace = argument(inputs + outputs);
  result.start(builder);
  return result;
}

void PhaseFunction::start(llvm::IRBuilder<>& builder) {
  auto* entry = llvm::BasicBlock::Create(builder.getContext(), "entry", function);
  auto* start = llvm::BasicBlock::Create(builder.getContext(), "start", function);
  builder.SetInsertPoint(entry);
  entry_anchor = builder.CreateBr(start);
  builder.SetInsertPoint(start);
}

Value* PhaseFunction::pointer(int argument, int number, std::map<int, Value*>& known) {
  Value*& value = known[number];
  if (value == nullptr) {
    llvm::IRBuilder<> b(entry_anchor);
    Value* slot = b.CreateConstInBoundsGEP1_64(b.getPtrTy(),
                                               function->getArg(static_cast<unsigned>(argument)),
                                               static_cast<std::uint64_t>(number));
    value = b.CreateLoad(b.getPtrTy(), slot);
  }
  return value;
}

Value* PhaseFunction::input(int number) { return pointer(0, number, inputs_); }
Value* PhaseFunction::output(int number) { return pointer(1, number, outputs_); }

Value* PhaseFunction::is_in_place(int output_number, const std::vector<int>& inputs) {
  Value* target = output(output_number);
  std::vector<Value*> sources;
  for (const int number : inputs) sources.push_back(input(number));
  llvm::IRBuilder<> b(entry_anchor);
  Value* any = b.getFalse();
  for (Value* source : sources) any = b.CreateOr(any, b.CreateICmpEQ(source, target));
  return b.CreateZExt(any, b.getInt64Ty());
}

void PhaseFunction::finish(llvm::IRBuilder<>& b, bool streamed) {
  if (streamed) b.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
  b.CreateRetVoid();
}

Loop Loop::open(llvm::IRBuilder<>& b, Value* begin, Value* end, std::int64_t step) {
  Loop loop;
  llvm::Function* function = b.GetInsertBlock()->getParent();
  llvm::BasicBlock* before = b.GetInsertBlock();
  auto* body = llvm::BasicBlock::Create(b.getContext(), "loop", function);
  loop.exit = llvm::BasicBlock::Create(b.getContext(), "after", function);
  loop.end = end;
  loop.step = llvm::ConstantInt::getSigned(begin->getType(), step);
  loop.anchor = b.CreateCondBr(b.CreateICmpSLT(begin, end), body, loop.exit);
  b.SetInsertPoint(body);
  loop.variable = b.CreatePHI(begin->getType(), 2);
  loop.variable->addIncoming(begin, before);
  return loop;
}

void Loop::close(llvm::IRBuilder<>& b) {
  Value* next = b.CreateNSWAdd(variable, step);
  variable->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpSLT(next, end), variable->getParent(), exit);
  b.SetInsertPoint(exit);
}

}  // namespace plimsoll::jit
