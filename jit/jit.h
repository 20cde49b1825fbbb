// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/status.h"
#include "runtime/device/kernel.h"
#include "runtime/ir/module.h"

namespace plimsoll::jit {

struct Options {
  int optimization_level = 2;
  std::string dump_directory;  // empty: nothing is written
  // Kernels that read and write at least so many bytes store past the caches; 0: the size of the
  // last-level cache. Changes no bit of a result.
  std::int64_t streaming_bytes = 0;
};

struct Statistics {
  std::int64_t kernels_compiled = 0;
  std::int64_t cache_hits = 0;
  double compile_seconds = 0;
};

// True when the compiler can make a kernel of this instruction: elementwise and movement
// operations, creation, reduce, and fusions of those (single or tuple root). Pure; cheap.
bool supports(const ir::Instruction& instruction);

// Compiles instructions for the host CPU through LLVM ORC. Kernels are cached in memory by
// canonical text, so equal instructions (up to names) share one. Thread-safe. Kernels keep what
// they need of the compiler alive.
class Compiler {
 public:
  static Result<std::unique_ptr<Compiler>> create(const Options& options = {});
  virtual ~Compiler() = default;
  // UNIMPLEMENTED when !supports(instruction).
  virtual Result<std::shared_ptr<const device::Kernel>> compile(
      const ir::Instruction& instruction) = 0;
  virtual Statistics statistics() const = 0;
};

}  // namespace plimsoll::jit
