// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/device/kernel_provider.h"
#include "runtime/memory/tiers.h"
#include "runtime/program/program.h"
#include "runtime/program/program_options.h"

namespace plimsoll::executor {

// Of the machine code that is loaded: now, and the most there ever was. In host memory.
struct CodeBytes {
  std::int64_t now = 0, peak = 0;
};

// What decides how programs come about: passes, launches, and the speeds that plans go by.
struct CompilerOptions {
  ProgramOptions program;
  bool calibrate = false;  // plan by this machine's measured speeds, else by the built-in table
};
// What the environment says (program_options_from_environment, PLIMSOLL_CALIBRATION).
Result<CompilerOptions> compiler_options_from_environment();

// Makes programs of modules for the device that `provider` makes kernels of. Thread-safe.
class ProgramCompiler {
 public:
  ProgramCompiler(std::shared_ptr<device::KernelProvider> provider, const CompilerOptions& options)
      : provider_(std::move(provider)), options_(options) {}

  // Program::create; measures the machine when the first program is compiled.
  Result<std::shared_ptr<const Program>> compile(std::unique_ptr<ir::Module> module,
                                                 const ProgramOptions& options) const;
  // The tiers' links go at the speeds of machine().
  void set_link_speeds(const memory::Tiers& tiers) const;
  // The speeds that programs are planned by.
  planner::Roofline machine() const;
  CodeBytes code_bytes() const;

  // What programs are compiled by unless another is wanted.
  const ProgramOptions& options() const { return options_.program; }
  device::KernelProvider& provider() const { return *provider_; }

 private:
  const std::shared_ptr<device::KernelProvider> provider_;
  const CompilerOptions options_;
};

}  // namespace plimsoll::executor
