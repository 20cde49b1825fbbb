// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "jit/emit/kernel_code.h"
#include "jit/jit.h"
#include "runtime/base/status.h"
#include "runtime/device/cpu/phased_kernel.h"

namespace plimsoll::jit {

using device::PhaseEntry;

// Machine code in memory, one entry per phase; freed with the last reference.
class NativeCode {
 public:
  virtual ~NativeCode() = default;
  virtual PhaseEntry entry(std::size_t phase) const = 0;
};

// A kernel's code as people read it.
struct CodeListing {
  std::string llvm;      // the IR that machine code was made from
  std::string assembly;  // empty unless asked for
};

// Of the library that is linked: "19.1.7".
std::string llvm_version();

// Turns kernels into object files for the host, and object files into machine code in memory,
// through ORC. Thread-safe; every kernel has an LLVM context of its own, only linking is shared.
// What it makes may outlive it.
class NativeCompiler {
 public:
  // Of `options` all but what is kept on disk and what is dumped.
  static Result<std::unique_ptr<NativeCompiler>> create(const Options& options);
  virtual ~NativeCompiler() = default;

  virtual KernelTarget kernel_target() const = 0;
  // All that an object depends on beside the kernel: the target, LLVM's version, that of our
  // sources, options. The same in every process for which the same objects will do.
  virtual const std::string& identity() const = 0;

  // `listing`, when not null, gets the IR, and the assembly when `assembly` is set.
  virtual Result<KernelObject> generate(KernelCode code, CodeListing* listing, bool assembly) = 0;
  virtual Result<std::shared_ptr<const NativeCode>> load(const KernelObject& kernel) = 0;

  // Of all that is loaded, its sections in memory: now, and the most there ever was.
  virtual std::int64_t code_bytes() const = 0;
  virtual std::int64_t peak_code_bytes() const = 0;
};

}  // namespace plimsoll::jit
