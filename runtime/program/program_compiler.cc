// SPDX-License-Identifier: Apache-2.0
#include "runtime/program/program_compiler.h"

#include <utility>

#include "runtime/program/calibration.h"

namespace plimsoll::executor {

Result<CompilerOptions> compiler_options_from_environment() {
  CompilerOptions options;
  PLIMSOLL_ASSIGN_OR_RETURN(options.program, program_options_from_environment());
  PLIMSOLL_ASSIGN_OR_RETURN(options.calibrate, calibrate_from_environment());
  return options;
}

planner::Roofline ProgramCompiler::machine() const {
  return options_.calibrate ? machine_speeds(*provider_) : built_in_speeds(*provider_->device());
}

Result<std::shared_ptr<const Program>> ProgramCompiler::compile(
    std::unique_ptr<ir::Module> module, const ProgramOptions& options) const {
  return Program::create(std::move(module), *provider_, options, machine());
}

void ProgramCompiler::set_link_speeds(const memory::Tiers& tiers) const {
  if (tiers == memory::Tiers()) return;
  executor::set_link_speeds(tiers, machine());
}

CodeBytes ProgramCompiler::code_bytes() const {
  const device::KernelStatistics statistics = provider_->statistics();
  return {statistics.code_bytes, statistics.peak_code_bytes};
}

}  // namespace plimsoll::executor
