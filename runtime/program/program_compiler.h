// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "jit/jit.h"
#include "runtime/base/status.h"
#include "runtime/memory/tiers.h"
#include "runtime/program/program.h"
#include "runtime/program/program_options.h"

namespace plimsoll::executor {

// Of the machine code that is loaded: now, and the most there ever was. In host memory.
struct CodeBytes {
  std::int64_t now = 0, peak = 0;
};

// What decides how programs come about: code, passes, and the speeds that plans go by.
struct CompilerOptions {
  jit::Options jit;
  ProgramOptions program;
  bool calibrate = false;  // plan by this machine's measured speeds, else by the built-in table
};
// What the environment says (PLIMSOLL_JIT_*, PLIMSOLL_DUMP, PLIMSOLL_ATTENTION, PLIMSOLL_LAUNCHES,
// PLIMSOLL_CALIBRATION).
Result<CompilerOptions> compiler_options_from_environment();

// Makes programs of modules, for who need not know how kernels come about. Thread-safe.
class ProgramCompiler {
 public:
  static Result<std::shared_ptr<const ProgramCompiler>> create(const CompilerOptions& options);
  ~ProgramCompiler();

  // Program::create; measures the machine when the first program is compiled.
  Result<std::shared_ptr<const Program>> compile(std::unique_ptr<ir::Module> module,
                                                 const ProgramOptions& options) const;
  // The tiers' links go at the speeds of machine().
  void set_link_speeds(const memory::Tiers& tiers) const;
  // The speeds that programs are planned by.
  planner::Roofline machine() const;
  CodeBytes code_bytes() const;

  // What programs are compiled by unless another is wanted.
  const ProgramOptions& options() const { return options_; }

  ProgramCompiler(std::unique_ptr<jit::Compiler> compiler, const ProgramOptions& options,
                  bool calibrate);

 private:
  const std::unique_ptr<jit::Compiler> compiler_;
  const ProgramOptions options_;
  const bool calibrate_;
};

}  // namespace plimsoll::executor
