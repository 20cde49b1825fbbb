// SPDX-License-Identifier: Apache-2.0
#include "runtime/program/program_compiler.h"

#include <utility>

#include "jit/jit.h"
#include "runtime/program/calibration.h"

namespace plimsoll::executor {

Result<CompilerOptions> compiler_options_from_environment() {
  CompilerOptions options;
  PLIMSOLL_ASSIGN_OR_RETURN(options.jit, jit::options_from_environment());
  PLIMSOLL_ASSIGN_OR_RETURN(options.program, program_options_from_environment());
  PLIMSOLL_ASSIGN_OR_RETURN(options.calibrate, calibrate_from_environment());
  return options;
}

Result<std::shared_ptr<const ProgramCompiler>> ProgramCompiler::create(
    const CompilerOptions& options) {
  PLIMSOLL_ASSIGN_OR_RETURN(std::unique_ptr<jit::Compiler> compiler,
                            jit::Compiler::create(options.jit));
  return std::make_shared<const ProgramCompiler>(std::move(compiler), options.program,
                                                 options.calibrate);
}

ProgramCompiler::ProgramCompiler(std::unique_ptr<jit::Compiler> compiler,
                                 const ProgramOptions& options, bool calibrate)
    : compiler_(std::move(compiler)), options_(options), calibrate_(calibrate) {}

ProgramCompiler::~ProgramCompiler() = default;

planner::Roofline ProgramCompiler::machine() const {
  return calibrate_ ? machine_speeds(*compiler_) : planner::Roofline();
}

Result<std::shared_ptr<const Program>> ProgramCompiler::compile(
    std::unique_ptr<ir::Module> module, const ProgramOptions& options) const {
  return Program::create(std::move(module), *compiler_, options, machine());
}

void ProgramCompiler::set_link_speeds(const memory::Tiers& tiers) const {
  if (tiers == memory::Tiers()) return;
  executor::set_link_speeds(tiers, machine());
}

CodeBytes ProgramCompiler::code_bytes() const {
  const jit::Statistics statistics = compiler_->statistics();
  return {statistics.code_bytes, statistics.peak_code_bytes};
}

}  // namespace plimsoll::executor
