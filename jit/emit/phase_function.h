// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace plimsoll::jit {

// The function of one phase of a kernel while it is being written:
//   void(ptr inputs, ptr outputs, ptr workspace, i64 begin, i64 end)
// `entry_anchor` ends the entry block; what is constant for a call stands before it.
struct PhaseFunction {
  llvm::Function* function = nullptr;
  llvm::Instruction* entry_anchor = nullptr;
  llvm::Value* workspace = nullptr;
  llvm::Value* begin = nullptr;
  llvm::Value* end = nullptr;

  // Of a GPU's kernel, whose threads are told apart by the machine: void(ptr...), with `inputs` and
  // `outputs` pointers and the workspace's. `begin` and `end` are null.
  static PhaseFunction create_entry(llvm::Module& module, const std::string& name,
                                    llvm::IRBuilder<>& builder, int inputs, int outputs);
  // Input or output `number` lies at `pointer`, known in the entry block.
  void bind_input(int number, llvm::Value* pointer) { inputs_[number] = pointer; }
  void bind_output(int number, llvm::Value* pointer) { outputs_[number] = pointer; }

  // Leaves `builder` in the block after the entry.
  static PhaseFunction create(llvm::Module& module, const std::string& name,
                              llvm::IRBuilder<>& builder);
  llvm::Value* input(int number);
  llvm::Value* output(int number);
  // An i64 that is 1 where output `output` is the buffer of one of `inputs`, else 0.
  llvm::Value* is_in_place(int output, const std::vector<int>& inputs);
  // Ends the function. Where `streamed`, stores past the caches are seen by others when it returns.
  void finish(llvm::IRBuilder<>& builder, bool streamed);

 private:
  void start(llvm::IRBuilder<>& builder);
  llvm::Value* pointer(int argument, int number, std::map<int, llvm::Value*>& known);
  std::map<int, llvm::Value*> inputs_, outputs_;
};

// `for (variable = begin; variable < end; variable += step)`; `anchor` is the branch into the loop,
// before which goes what is constant in it. Of the type of `begin`.
struct Loop {
  llvm::PHINode* variable = nullptr;
  llvm::BranchInst* anchor = nullptr;
  llvm::BasicBlock* exit = nullptr;
  llvm::Value* end = nullptr;
  llvm::Value* step = nullptr;

  static Loop open(llvm::IRBuilder<>& builder, llvm::Value* begin, llvm::Value* end,
                   std::int64_t step);
  void close(llvm::IRBuilder<>& builder);
};

}  // namespace plimsoll::jit
