// SPDX-License-Identifier: Apache-2.0
#include "jit/launch/compiled_kernel.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>

#include "jit/keys/canonical.h"
#include "runtime/base/index.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::jit {
namespace {

// Long enough that the calls do not count, short enough that what one phase read is in the cache
// for the next.
constexpr double kTurnSeconds = 1e-6;

std::int64_t units_in(double seconds, double unit_seconds) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(seconds / unit_seconds)));
}

// Pieces of equal shape that are stored side by side: phases that do not depend on each other,
// whose units with the same number stand in the same rows, and may well read the same.
bool are_pieces(const KernelGraph& graph, const std::vector<device::KernelPhase>& phases) {
  if (graph.roots().size() != 1 || graph.roots()[0].is_input() || phases.size() < 2) return false;
  const ir::Instruction& root = *graph.roots()[0].instruction;
  if (root.opcode() != ir::Opcode::concatenate) return false;
  return std::all_of(root.operands().begin(), root.operands().end(),
                     [&](const ir::Instruction* operand) {
                       return operand->shape() == root.operand(0)->shape();
                     }) &&
         std::all_of(phases.begin(), phases.end(), [&](const device::KernelPhase& phase) {
           return phase.units == phases[0].units;
         });
}

}  // namespace

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
    grains_.push_back(units_in(device::kPieceSeconds, phase.unit_seconds));
  }
  takes_turns_ = are_pieces(graph, phases_);
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
  if (takes_turns_) {
    take_turns(inputs, arguments);
    return ok_status();
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

void CompiledKernel::take_turns(const void* const* inputs,
                                const device::KernelArguments& arguments) const {
  double unit_seconds = 0;
  for (const device::KernelPhase& phase : phases_) unit_seconds += phase.unit_seconds;
  const std::int64_t turn = units_in(kTurnSeconds, unit_seconds);
  device::parallel_for(phases_[0].units, units_in(device::kPieceSeconds, unit_seconds),
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t i = begin; i < end; i += turn) {
                           for (const device::KernelPhase& phase : phases_) {
                             phase.run(inputs, arguments.outputs.data(), arguments.workspace, i,
                                       std::min(end, i + turn));
                           }
                         }
                       });
}

}  // namespace plimsoll::jit
