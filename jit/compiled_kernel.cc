// SPDX-License-Identifier: Apache-2.0
#include "jit/compiled_kernel.h"

#include <algorithm>
#include <cmath>

#include "jit/canonical.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::jit {
CompiledKernel::CompiledKernel(const Graph& graph, const KernelObject& object,
                               std::shared_ptr<const NativeCode> code)
    : name_(kernel_name(graph)),
      input_count_(graph.inputs().size()),
      output_count_(graph.roots().size()),
      workspace_bytes_(object.workspace_bytes),
      phases_(object.phases),
      code_(std::move(code)) {
  for (const Phase& phase : phases_) {
    grains_.push_back(std::max<std::int64_t>(
        1, static_cast<std::int64_t>(std::ceil(kPieceSeconds / phase.unit_seconds))));
  }
  for (const ir::Instruction* table : graph.tables()) {
    tables_.push_back(table->attributes().literal);
  }
}

Status CompiledKernel::launch(device::Stream&, const device::KernelArguments& arguments) const {
  if (arguments.inputs.size() != input_count_ || arguments.outputs.size() != output_count_) {
    return internal_error("launch " + name_ + ": " + std::to_string(arguments.inputs.size()) +
                          " inputs and " + std::to_string(arguments.outputs.size()) +
                          " outputs (it takes " + std::to_string(input_count_) + " and " +
                          std::to_string(output_count_) + ")");
  }
  const void* const* inputs = arguments.inputs.data();
  std::vector<const void*> with_tables;
  if (!tables_.empty()) {
    with_tables.assign(arguments.inputs.begin(), arguments.inputs.end());
    for (const auto& table : tables_) with_tables.push_back(table->bytes().data());
    inputs = with_tables.data();
  }
  for (std::size_t i = 0; i < phases_.size(); ++i) {
    const Phase& phase = phases_[i];
    if (phase.unless_input >= 0 &&
        inputs[phase.unless_input] ==
            arguments.outputs[static_cast<std::size_t>(phase.unless_output)]) {
      continue;
    }
    const PhaseEntry entry = code_->entry(i);
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
