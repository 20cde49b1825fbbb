// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cpu/joint_launch.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::device {
namespace {

// What it takes to begin with another part: its pointers, its scalars, its first misses.
constexpr double kEntrySeconds = 50e-9;

}  // namespace

class CpuJointLaunch::WaveWriter {
 public:
  void add(Entry entry, double unit_seconds, std::int64_t cut) {
    if (entry.end <= entry.begin) return;
    seconds_ += kEntrySeconds;
    const std::int64_t most =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(kPieceSeconds / unit_seconds) / cut) *
        cut;
    const std::int64_t end = entry.end;
    while (entry.begin < end) {
      entry.end = std::min(end, entry.begin + most);
      wave_.entries.push_back(entry);
      seconds_ += unit_seconds * static_cast<double>(entry.end - entry.begin);
      if (seconds_ >= kPieceSeconds) close();
      entry.begin = entry.end;
    }
  }
  Wave finish() {
    close();
    return std::move(wave_);
  }

 private:
  void close() {
    if (wave_.pieces.back() < wave_.entries.size()) wave_.pieces.push_back(wave_.entries.size());
    seconds_ = 0;
  }

  Wave wave_;
  double seconds_ = 0;
};

CpuJointLaunch::CpuJointLaunch(std::span<const PhasedKernel* const> parts) {
  std::size_t most_phases = 0;
  for (const PhasedKernel* part : parts) {
    parts_.push_back(
        {input_count_ + table_count_, output_count_, part->input_count(), part->tables()});
    input_count_ += part->input_count();
    table_count_ += part->tables().size();
    output_count_ += part->output_count();
    most_phases = std::max(most_phases, part->phases().size());
  }
  for (std::size_t p = 0; p < most_phases; ++p) {
    WaveWriter writer;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (p >= parts[i]->phases().size()) continue;
      const KernelPhase& phase = parts[i]->phases()[p];
      writer.add({phase.run, static_cast<std::int32_t>(i), phase.unless_input, phase.unless_output,
                  0, phase.units},
                 phase.unit_seconds, phase.cut);
    }
    waves_.push_back(writer.finish());
  }
}

Status CpuJointLaunch::launch(Stream&, std::span<const void* const> inputs,
                              std::span<void* const> outputs,
                              std::span<void* const> workspaces) const {
  if (inputs.size() != input_count_ || outputs.size() != output_count_ ||
      workspaces.size() != parts_.size()) {
    return internal_error("a joint launch: " + std::to_string(inputs.size()) + " inputs and " +
                          std::to_string(outputs.size()) + " outputs (it takes " +
                          std::to_string(input_count_) + " and " + std::to_string(output_count_) +
                          ")");
  }
  if (table_count_ == 0) {
    run(inputs.data(), outputs.data(), workspaces.data());
    return ok_status();
  }
  std::vector<const void*> with_tables;
  with_tables.reserve(input_count_ + table_count_);
  auto next = inputs.begin();
  for (const Part& part : parts_) {
    const auto end = next + static_cast<std::ptrdiff_t>(part.input_count);
    with_tables.insert(with_tables.end(), next, end);
    with_tables.insert(with_tables.end(), part.tables.begin(), part.tables.end());
    next = end;
  }
  run(with_tables.data(), outputs.data(), workspaces.data());
  return ok_status();
}

void CpuJointLaunch::run(const void* const* inputs, void* const* outputs,
                         void* const* workspaces) const {
  for (const Wave& wave : waves_) {
    const auto run_pieces = [&](std::int64_t begin, std::int64_t end) {
      const std::size_t last = wave.pieces[at(end)];
      for (std::size_t i = wave.pieces[at(begin)]; i < last; ++i) {
        const Entry& entry = wave.entries[i];
        const Part& part = parts_[at(entry.part)];
        const void* const* part_inputs = inputs + part.inputs;
        void* const* part_outputs = outputs + part.outputs;
        if (entry.unless_input >= 0 &&
            part_inputs[entry.unless_input] == part_outputs[entry.unless_output]) {
          continue;
        }
        entry.run(part_inputs, part_outputs, workspaces[entry.part], entry.begin, entry.end);
      }
    };
    parallel_for(static_cast<std::int64_t>(wave.pieces.size()) - 1, 1, run_pieces);
  }
}

}  // namespace plimsoll::device
