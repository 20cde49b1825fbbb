// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/IRBuilder.h>

namespace plimsoll::jit {

// Code of `f` that runs where the condition (null: always) holds; the builder goes on behind it.
template <typename F>
void emit_when(llvm::IRBuilder<>& b, llvm::Value* condition, F f) {
  if (condition == nullptr) {
    f();
    return;
  }
  llvm::Function* const function = b.GetInsertBlock()->getParent();
  auto* yes = llvm::BasicBlock::Create(b.getContext(), "yes", function);
  auto* done = llvm::BasicBlock::Create(b.getContext(), "done", function);
  b.CreateCondBr(condition, yes, done);
  b.SetInsertPoint(yes);
  f();
  b.CreateBr(done);
  b.SetInsertPoint(done);
}

}  // namespace plimsoll::jit
