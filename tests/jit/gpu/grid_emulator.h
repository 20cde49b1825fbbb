// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/gpu/gpu_kernel.h"
#include "runtime/base/status.h"
#include "runtime/ir/module.h"

// Runs a GPU's kernels on the host: the very LLVM IR that becomes PTX, compiled for this machine,
// with a small run-time in the place of what a GPU's hardware does.
namespace plimsoll::jit::testing {

// In which order the threads of a block are resumed, from one place where they wait for each other
// to the next. Kernels without a race give the same bits in every one.
struct ThreadOrder {
  enum class Kind : std::uint8_t { forward, backward, shuffled };
  Kind kind = Kind::forward;
  std::uint64_t seed = 0;  // of shuffled
};

// One kernel. Threads are fibers, blocks run one after the other. Of a GPU it has blocks, warps of
// 32 threads, shared memory (which holds rubbish at a block's start), barriers of blocks and warps,
// exchange of registers in a warp, products of small matrices by a warp, copies into shared
// memory that are under way until they are waited for, conversions to 16-bit floats, and NaNs: the
// result of f32 arithmetic that is one is 0x7fffffff, that of rounding to 16 bits 0x7fff. A barrier
// or an exchange that not all threads come to is an error, as is a pointer that is no multiple of
// kGpuAlignment, but for the word that launches report by. Use one at a time; thread-safe
// otherwise.
class EmulatedKernel {
 public:
  // UNIMPLEMENTED where GpuCompiler::compile says so.
  static Result<std::unique_ptr<EmulatedKernel>> create(const ir::Instruction& instruction,
                                                        GpuTarget target = {});
  // One direction of a codec.
  static Result<std::unique_ptr<EmulatedKernel>> encoder(const ir::Codec& codec,
                                                         const ir::Shape& shape);
  static Result<std::unique_ptr<EmulatedKernel>> decoder(const ir::Codec& codec,
                                                         const ir::Shape& shape);
  // Of LLVM IR as the code generator writes it; the launches are the caller's.
  static Result<std::unique_ptr<EmulatedKernel>> of_text(std::string_view text,
                                                         std::vector<GpuLaunch> launches);
  virtual ~EmulatedKernel() = default;

  // All launches; `pointers`: all inputs, then all outputs, then the workspace, and of a codec the
  // word that it reports by.
  virtual Status run(std::span<void* const> pointers, std::int64_t inputs, ThreadOrder order) = 0;
  // One entry, on its own pointers.
  virtual Status launch(const std::string& entry, std::uint32_t grid, std::uint32_t block,
                        std::span<void* const> arguments, ThreadOrder order) = 0;
  virtual const std::vector<GpuLaunch>& launches() const = 0;
  virtual std::int64_t workspace_bytes() const = 0;
};

}  // namespace plimsoll::jit::testing
