// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "jit/jit.h"
#include "jit/kernel_code.h"
#include "runtime/base/status.h"

namespace plimsoll::jit {

using PhaseEntry = void (*)(const void* const* inputs, void* const* outputs, void* workspace,
                            std::int64_t begin, std::int64_t end);

// Machine code in memory, one entry per phase; freed with the last reference.
class NativeCode {
 public:
  virtual ~NativeCode() = default;
  virtual PhaseEntry entry(std::size_t phase) const = 0;
};

// Turns kernels into machine code of the host, through ORC. Thread-safe; every kernel has an LLVM
// context of its own, only linking is shared. What it makes may outlive it.
class NativeCompiler {
 public:
  static Result<std::unique_ptr<NativeCompiler>> create(const Options& options);
  virtual ~NativeCompiler() = default;
  virtual Machine machine() const = 0;
  // `optimized_text`, when not null, gets the IR that machine code was made from.
  virtual Result<std::shared_ptr<const NativeCode>> compile(KernelCode code,
                                                            std::string* optimized_text) = 0;
};

}  // namespace plimsoll::jit
