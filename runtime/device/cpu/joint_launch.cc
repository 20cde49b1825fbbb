// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cpu/joint_launch.h"

#include <algorithm>
#include <utility>

#include "runtime/device/cpu/parallel.h"

namespace plimsoll::device {
namespace {

// What it takes to begin with another part: its pointers, its scalars, its first misses.
constexpr double kEntrySeconds = 50e-9;

}  // namespace

class JointLaunch::WaveWriter {
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

JointLaunch::JointLaunch(std::span<const PhasedKernel* const> parts) {
  std::size_t most_phases = 0;
  for (const PhasedKernel* part : parts) {
    parts_.push_back({input_count_, output_count_});
    input_count_ += part->input_count();
    for (const void* table : part->tables()) tables_.push_back({input_count_++, table});
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

void JointLaunch::fill_tables(std::span<const void*> inputs) const {
  for (const Table& table : tables_) inputs[table.input] = table.pointer;
}

void JointLaunch::run(std::span<const void* const> inputs, std::span<void* const> outputs,
                      std::span<void* const> workspaces) const {
  for (const Wave& wave : waves_) {
    const auto run = [&](std::int64_t begin, std::int64_t end) {
      const std::size_t last = wave.pieces[static_cast<std::size_t>(end)];
      for (std::size_t i = wave.pieces[static_cast<std::size_t>(begin)]; i < last; ++i) {
        const Entry& entry = wave.entries[i];
        const Part& part = parts_[static_cast<std::size_t>(entry.part)];
        const void* const* part_inputs = inputs.data() + part.inputs;
        void* const* part_outputs = outputs.data() + part.outputs;
        if (entry.unless_input >= 0 &&
            part_inputs[entry.unless_input] == part_outputs[entry.unless_output]) {
          continue;
        }
        entry.run(part_inputs, part_outputs, workspaces[static_cast<std::size_t>(entry.part)],
                  entry.begin, entry.end);
      }
    };
    parallel_for(static_cast<std::int64_t>(wave.pieces.size()) - 1, 1, run);
  }
}

}  // namespace plimsoll::device
