// SPDX-License-Identifier: Apache-2.0
#include "jit/launch/compiled_kernel.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>

#include "jit/keys/canonical.h"
#include "runtime/base/index.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::jit {
CompiledKernel::CompiledKernel(const KernelGraph& graph, const KernelObject& object,
                               std::shared_ptr<const NativeCode> code)
    : name_(kernel_name(graph)),
      input_count_(graph.inputs().size()),
      output_count_(graph.roots().size()),
      workspace_bytes_(object.workspace_bytes),
      code_(std::move(code)) {
  for (std::size_t i = 0; i < object.phases.size(); ++i) {
    const Phase& phase = object.phases[i];
    phases_.push_back({code_->entry(i), phase.units, 1, phase.unit_seconds, phase.unless_input,
                       phase.unless_output, phase.run_elements, phase.own_inputs});
    grains_.push_back(std::max<std::int64_t>(
        1, static_cast<std::int64_t>(std::ceil(device::kPieceSeconds / phase.unit_seconds))));
  }
  for (const ir::Instruction* table : graph.tables()) {
    tables_.push_back(table->attributes().literal);
    table_pointers_.push_back(tables_.back()->bytes().data());
  }
}

Status CompiledKernel::launch(device::Stream&, const device::KernelArguments& arguments) const {
  if (arguments.inputs.size() != input_count_ || arguments.outputs.size() != output_count_) {
    return internal_error(fmt::format("launch {}: {} inputs and {} outputs (it takes {} and {})",
                                      name_, arguments.inputs.size(), arguments.outputs.size(),
                                      input_count_, output_count_));
  }
  const void* const* inputs = arguments.inputs.data();
  std::vector<const void*> with_tables;
  if (!tables_.empty()) {
    with_tables.assign(arguments.inputs.begin(), arguments.inputs.end());
    with_tables.insert(with_tables.end(), table_pointers_.begin(), table_pointers_.end());
    inputs = with_tables.data();
  }
  for (std::size_t i = 0; i < phases_.size(); ++i) {
    const device::KernelPhase& phase = phases_[i];
    if (phase.unless_input >= 0 &&
        inputs[phase.unless_input] == arguments.outputs[at(phase.unless_output)]) {
      continue;
    }
    const PhaseEntry entry = phase.run;
    const std::int64_t grain = grains_[i];
    if (phase.units <= grain) {
      entry(inputs, arguments.outputs.data(), arguments.workspace, 0, phase.units);
      continue;
    }
    device::parallel_for(phase.units, grain, [&](std::int64_t begin, std::int64_t end) {
      entry(inputs, arguments.outputs.data(), arguments.workspace, begin, end);
    });
  }
  return ok_status();
}

}  // namespace plimsoll::jit
