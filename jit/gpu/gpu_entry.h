// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "jit/emit/phase_function.h"
#include "jit/emit/when.h"
#include "jit/gpu/gpu_code.h"
#include "jit/graph/graph.h"

namespace plimsoll::jit {

// Threads of a warp, whose registers each may read.
inline constexpr int kWarp = 32;
// Of a block, where nothing asks for another number.
inline constexpr std::uint32_t kBlockThreads = 256;
// So many elements of a row are read before the first is combined, by code of a few operations.
inline constexpr std::int64_t kTurnsTogether = 4;
// Threads that fill a GPU: where there are fewer, each takes one element at a time.
inline constexpr std::int64_t kManyThreads = 16384;

// What the kernels of one instruction are written into: the module, and the launches so far.
struct GpuWriter {
  GpuCode& code;
  const ir::Instruction& instruction;
  std::vector<int> inputs, outputs;    // the instruction's, as numbers among the kernel's
  const KernelGraph* graph = nullptr;  // of what the JIT compiles
  // Where in the workspace an output lies that is none of the kernel's (its number is negative).
  std::vector<std::int64_t> aside = {};
  std::int64_t workspace_begin = 0;  // of the graph's own

  // Indices fit in 32 bits: every array has fewer than 2^31 elements.
  bool narrow() const;
};

// An entry while it is being written: a block of `block` threads (a multiple of kWarp) of a grid.
// The builder stands behind the entry's first block.
class GpuEntry {
 public:
  GpuEntry(GpuWriter& writer, std::uint32_t block);

  llvm::IRBuilder<>& builder() { return b_; }
  PhaseFunction& function() { return function_; }
  std::uint32_t block() const { return block_; }

  // Indices are of this type.
  llvm::IntegerType* index_type() const { return index_type_; }
  llvm::ConstantInt* number(std::int64_t n) const;

  // Numbers of this thread in its block (i32), of the block, and of the thread in the grid.
  llvm::Value* thread_in_block();
  llvm::Value* block_in_grid();
  llvm::Value* thread();

  // `*x` divided by `count`: returns the remainder and leaves the quotient.
  llvm::Value* split(llvm::Value** x, std::int64_t count);
  // Runs `f` where `condition` (null: always) holds.
  template <typename F>
  void when(llvm::Value* condition, F f);
  // A place for code before what follows.
  llvm::Instruction* open_place();

  // A register of thread `lane + offset`, or `lane`, of groups of `group` threads side by side in a
  // warp (a power of two). Every thread of the warp must come here.
  llvm::Value* from_lane_above(llvm::Value* value, int offset, int group);
  llvm::Value* from_lane(llvm::Value* value, llvm::Value* lane, int group);
  // Waits for all threads of the block, or of the warp, which must all come here.
  void barrier();
  void warp_barrier();
  // `count` elements that the block shares, undefined at first.
  llvm::Value* share(llvm::Type* element, std::int64_t count);

  // Registers are so few that `blocks` blocks fit into a multiprocessor.
  void keep_resident(std::uint32_t blocks) { resident_ = blocks; }

  // Element `place` of an array in memory, as a register has it.
  llvm::Value* load_element(llvm::Value* base, ir::DType dtype, llvm::Value* place);
  void store_element(llvm::Value* base, ir::DType dtype, llvm::Value* place, llvm::Value* value);

  // Ends the entry, and adds a launch of `threads` threads at least.
  GpuLaunch& launch(std::int64_t threads);

 private:
  llvm::Value* shuffle(llvm::Value* value, llvm::Value* operand, int group, bool above);

  GpuWriter& writer_;
  llvm::IRBuilder<> b_;
  std::uint32_t block_, resident_ = 0;
  PhaseFunction function_;
  llvm::IntegerType* index_type_;
};

template <typename F>
void GpuEntry::when(llvm::Value* condition, F f) {
  emit_when(b_, condition, std::move(f));
}

}  // namespace plimsoll::jit
