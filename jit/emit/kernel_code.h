// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "jit/graph/graph.h"
#include "jit/graph/phase.h"
#include "runtime/base/status.h"

namespace plimsoll::jit {

// What the writers of kernels need to know of the machine.
struct KernelTarget {
  int vector_bytes = 16;
  bool avx512 = false;  // F, VL, DQ and BW, with vectors of 64 bytes
  bool avx512_vnni = false;
  // What a loop reads and writes from where on its stores bypass the caches: what it stores first
  // would be gone from them anyway before it is read, and a line that is not read before it is
  // written is a third of the traffic saved.
  std::int64_t streaming_bytes = std::numeric_limits<std::int64_t>::max();
};

// A kernel as LLVM IR: phases run one after the other.
struct KernelCode {
  // Without a phase, of a module that may use what `target` has.
  static KernelCode create(const KernelTarget& target);

  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;
  std::vector<Phase> phases;
  std::int64_t workspace_bytes = 0;
  // Whether it is many kernels, with loops around them (jit/sequences), of which much is known
  // where they meet.
  bool is_sequence = false;
};

}  // namespace plimsoll::jit
