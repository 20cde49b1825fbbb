// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/base/status.h"
#include "runtime/memory/tiers.h"
#include "runtime/program/program.h"

namespace plimsoll::executor {

// Of the machine code that is loaded: now, and the most there ever was. In host memory.
struct CodeBytes {
  std::int64_t now = 0, peak = 0;
};

// Makes programs of modules, for who need not know how kernels come about: a compiler as the
// environment has it, and the speeds of this machine, which plans go by. Thread-safe.
class ProgramCompiler {
 public:
  // `calibrate`: plans go by measured speeds (calibration.h), else by the built-in table.
  static Result<std::shared_ptr<const ProgramCompiler>> create(bool calibrate);
  ~ProgramCompiler();

  // Program::create; measures the machine when the first program is compiled.
  Result<std::shared_ptr<const Program>> compile(std::unique_ptr<ir::Module> module,
                                                 bool optimize) const;
  // The tiers' links go at the speeds of machine().
  void set_link_speeds(const memory::Tiers& tiers) const;
  // The speeds that programs are planned by.
  planner::Roofline machine() const;
  CodeBytes code_bytes() const;

  ProgramCompiler(std::unique_ptr<jit::Compiler> compiler, bool calibrate);

 private:
  const std::unique_ptr<jit::Compiler> compiler_;
  const bool calibrate_;
};

}  // namespace plimsoll::executor
