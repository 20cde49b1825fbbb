// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/joint_launch.h"
#include "runtime/device/kernel.h"
#include "runtime/device/launch_sequence.h"

namespace plimsoll::ir {
class Instruction;
class Shape;
struct Codec;
}  // namespace plimsoll::ir

namespace plimsoll::device {

// The two directions of a codec for arrays of one shape. An encoder reads a value of `shape` and
// writes ir::encoded_bytes of it, a decoder goes back; the buffers may not overlap.
// Decoding gives the very bits that were encoded, but for compare_mask (a value with the same
// outcome) and the lossy codecs (ir::error_bound). An encoder looks at every element: one that
// would not come back (narrow), a pred byte that is neither 0 nor 1 (bit_mask), a finite one that
// rounds to infinity (bfloat16, float16), or one that no scale reaches (int8, int4, int2: infinite,
// NaN, or so large that its rounding overflows) makes the launch fail with DATA_LOSS.
struct CodecKernels {
  std::shared_ptr<const Kernel> encode, decode;
};

// What making kernels has taken so far.
struct KernelStatistics {
  std::int64_t kernels_compiled = 0;
  std::int64_t kernels_loaded = 0;  // from disk
  std::int64_t cache_hits = 0;      // in memory
  double compile_seconds = 0;       // of all threads together, loading included
  // Machine code and its tables of the kernels that are loaded now, and the most there ever was: in
  // host memory.
  std::int64_t code_bytes = 0, peak_code_bytes = 0;
};

// Makes the kernels of one device. Thread-safe; must outlive what is made by it.
class KernelProvider {
 public:
  virtual ~KernelProvider() = default;
  virtual const std::shared_ptr<Device>& device() const = 0;
  // The kernel of one instruction. UNIMPLEMENTED, with the reason, where the device has none.
  virtual Result<std::shared_ptr<const Kernel>> kernel(const ir::Instruction& instruction) = 0;
  // The same for many, at the same time where that is faster; results are in order.
  virtual std::vector<Result<std::shared_ptr<const Kernel>>> kernels(
      std::span<const ir::Instruction* const> instructions) = 0;
  // Whether there are kernels for codecs; without, plans leave them out.
  virtual bool has_codecs() const { return true; }
  // Whether there is a kernel of `topk`, which is a sort without.
  virtual bool has_top_k() const { return false; }
  // Whether products read slices of their operands where they lie (ir/fusions/sliced_operands.h).
  virtual bool has_sliced_operands() const { return false; }
  // INVALID_ARGUMENT for a codec that arrays of this dtype don't have.
  virtual Result<CodecKernels> codec(const ir::Codec& codec, const ir::Shape& shape) = 0;
  // `parts`, which may_join and must outlive the launch, in one. They keep their bits.
  virtual Result<std::shared_ptr<const JointLaunch>> join(std::span<const Kernel* const> parts) = 0;
  // `first`, which has one result and so many inputs, and then `second`, which reads that result as
  // its input `input`, in one launch; null where the device gains nothing by that. `second` may
  // write where that result lies, but nothing else that `first` reads or writes. Both keep their
  // bits, and must outlive the launch.
  virtual std::shared_ptr<const JointLaunch> chain(const Kernel& /*first*/,
                                                   std::size_t /*first_inputs*/,
                                                   const Kernel& /*second*/,
                                                   std::size_t /*input*/) {
    return nullptr;
  }
  // What `text` says in one launch; null where the device gains nothing by that. Its kernels and
  // joint launches must outlive it. `may_compile`: it is run often enough for code of its own.
  virtual Result<std::shared_ptr<const LaunchSequence>> sequence(const SequenceText& /*text*/,
                                                                 bool /*may_compile*/) {
    return std::shared_ptr<const LaunchSequence>();
  }
  virtual KernelStatistics statistics() const = 0;
};

}  // namespace plimsoll::device
