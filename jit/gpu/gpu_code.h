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
// address space 3 and the mark of entries. Compute capabilities differ by what rounds to bf16.
struct GpuCode {
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;
  std::string name;
  std::vector<GpuLaunch> launches;
  std::int64_t inputs = 0, outputs = 0;
  std::int64_t workspace_bytes = 0;
  bool is_library = false;

  // The number, among an entry's pointers, of the word that a launch reports by.
  int report() const { return static_cast<int>(inputs + outputs) + 1; }
};

// An empty module, and what is done with it once it is written: verified, and optimized.
GpuCode new_gpu_code(GpuTarget target, std::string name, std::int64_t inputs, std::int64_t outputs);
Status finish_gpu_code(GpuCode& code);

// Of what the JIT has a kernel for; else UNIMPLEMENTED with the reason. Already optimized.
Result<GpuCode> write_gpu_code(const ir::Instruction& instruction, GpuTarget target = {});

// Of an operation that the JIT does not fuse (gpu_library.h): GpuCode::is_library.
bool is_gpu_library_kernel(const ir::Instruction& instruction);

// The module as PTX.
Result<std::string> to_ptx(const GpuCode& code, GpuTarget target);
// What decides the text beside the module: "sm_80 +ptx70".
std::string ptx_target(GpuTarget target);
// Whether this LLVM has the target; FAILED_PRECONDITION with the remedy if not.
Status check_ptx_target();

}  // namespace plimsoll::jit
