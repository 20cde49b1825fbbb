// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "jit/jit.h"
#include "runtime/base/status.h"
#include "runtime/ir/codec/codec.h"
#include "runtime/ir/module.h"

// Kernels for NVIDIA GPUs, as PTX: what is compiled, and how it is launched.
namespace plimsoll::jit {

struct GpuTarget {
  int compute_capability = 75;  // 10 * major + minor: 75, 80, 90, 100; at least 75
};

// One launch of a kernel: a grid of one dimension. An entry takes pointers alone.
struct GpuLaunch {
  std::string entry;
  std::uint32_t grid = 1, block = 1;
  std::uint32_t shared_bytes = 0;  // beside what the entry declares itself
  // The entry's pointers: numbers among all inputs, then all outputs, then the workspace, then a
  // word that the launch reports by: left as it is where all is well, else 1.
  std::vector<int> arguments;
  // Left out where this input and this output are the same buffer; -1: always launched.
  int unless_input = -1, unless_output = -1;
};

// The launches run one after the other, in one stream; each sees what those before it wrote. A
// kernel of an empty result has none. Every pointer is a multiple of kGpuAlignment bytes.
// Immutable.
struct GpuKernel {
  std::string name;  // what it does, as device::Kernel::name
  std::string ptx;   // one module
  std::vector<GpuLaunch> launches;
  std::int64_t inputs = 0, outputs = 0;  // array leaves of the operands and of the result
  std::int64_t workspace_bytes = 0;
  bool is_library = false;  // of what no fusion takes (gpu_library.h), or of a codec
  bool from_disk = false;   // the compiler did not make it itself
};

inline constexpr std::int64_t kGpuAlignment = 16;

// The two directions of a codec (device::CodecKernels).
struct GpuCodec {
  std::shared_ptr<const GpuKernel> encode, decode;
};

// Compiles what the JIT compiles for the CPU (jit/README.md): loop fusions, reductions, row fusions
// and horizontal fusions of those, of which equal ones (up to names) share a kernel; and of what
// the library has its own kernels for what gpu_library.h names. Kernels are kept in memory, and on
// disk where options say so, by what tells instructions apart (structural_key.h); those with tables
// of more than a kilobyte are compiled each time. Thread-safe.
class GpuCompiler {
 public:
  // FAILED_PRECONDITION where LLVM came without its NVPTX target, UNIMPLEMENTED for a compute
  // capability below 75.
  static Result<std::unique_ptr<GpuCompiler>> create(GpuTarget target,
                                                     const DiskCacheOptions& disk_cache = {});
  virtual ~GpuCompiler() = default;
  // UNIMPLEMENTED, with the reason, for what has no kernel.
  virtual Result<std::shared_ptr<const GpuKernel>> compile(const ir::Instruction& instruction) = 0;
  // INVALID_ARGUMENT for a codec that arrays of this dtype don't have.
  virtual Result<GpuCodec> codec(const ir::Codec& codec, const ir::Shape& shape) = 0;
};

}  // namespace plimsoll::jit
