// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <memory>
#include <string>
#include <vector>

#include "jit/gpu/gpu_kernel.h"
#include "jit/graph/graph.h"
#include "runtime/base/status.h"

namespace plimsoll::jit {

// A GPU's kernel as LLVM IR. Nothing in it is NVPTX's but calls of its intrinsics, shared memory in
// address space 3 and the mark of entries; it is the same for every compute capability.
struct GpuCode {
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;
  std::string name;
  std::vector<GpuLaunch> launches;
  std::int64_t inputs = 0, outputs = 0;
  std::int64_t workspace_bytes = 0;
};

// Of what the JIT has a kernel for; else UNIMPLEMENTED with the reason. Already optimized.
Result<GpuCode> write_gpu_code(const ir::Instruction& instruction);

// Of an operation that the JIT does not fuse (gpu_library.h).
bool is_gpu_library_kernel(const ir::Instruction& instruction);

// The module as PTX.
Result<std::string> to_ptx(const GpuCode& code, GpuTarget target);
// Whether this LLVM has the target; FAILED_PRECONDITION with the remedy if not.
Status check_ptx_target();

}  // namespace plimsoll::jit
