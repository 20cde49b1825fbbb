// SPDX-License-Identifier: Apache-2.0
#include "jit/horizontal_kernel.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "jit/flat_form.h"
#include "runtime/base/alignment.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/ir/horizontal_fusion.h"

namespace plimsoll::jit {
namespace {

// A piece of work that is worth giving to another thread.
constexpr double kPieceSeconds = 20e-6;
// What it takes to begin with another part: its pointers, its scalars, its first misses.
constexpr double kEntrySeconds = 50e-9;

// Units [begin, end) of one phase of one part.
struct Entry {
  PhaseEntry run = nullptr;
  std::int32_t part = 0;
  std::int32_t unless_input = -1, unless_output = -1;
  std::int64_t begin = 0, end = 0;
};

// Entries that may run in any order and at the same time, in pieces: piece i is entries
// [pieces[i], pieces[i + 1]).
struct Wave {
  std::vector<Entry> entries;
  std::vector<std::size_t> pieces{0};
};

class WaveWriter {
 public:
  void add(Entry entry, double unit_seconds, std::int64_t unit) {
    if (entry.end <= entry.begin) return;
    seconds_ += kEntrySeconds;
    const std::int64_t most =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(kPieceSeconds / unit_seconds) / unit) *
        unit;
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

class HorizontalKernel final : public device::Kernel {
 public:
  HorizontalKernel(const ir::Instruction& fusion, std::vector<HorizontalPart> parts,
                   std::string name)
      : name_(std::move(name)),
        input_count_(static_cast<std::size_t>(fusion.operand_count())),
        output_count_(static_cast<std::size_t>(ir::leaf_count(fusion.shape()))) {
    place_parts(fusion, parts);
    list_work(parts);
    for (HorizontalPart& part : parts) kernels_.push_back(std::move(part.kernel));
  }

  Status launch(device::Stream&, const device::KernelArguments& arguments) const override {
    if (arguments.inputs.size() != input_count_ || arguments.outputs.size() != output_count_) {
      return internal_error("launch " + name_ + ": " + std::to_string(arguments.inputs.size()) +
                            " inputs and " + std::to_string(arguments.outputs.size()) +
                            " outputs (it takes " + std::to_string(input_count_) + " and " +
                            std::to_string(output_count_) + ")");
    }
    std::vector<const void*> inputs(inputs_.size());
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const Source& source = inputs_[i];
      inputs[i] = source.table != nullptr
                      ? source.table->bytes().data()
                      : arguments.inputs[static_cast<std::size_t>(source.input)];
    }
    std::vector<void*> outputs(outputs_.size());
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      // A result that nobody takes is written beside the workspaces.
      outputs[i] = outputs_[i].output >= 0
                       ? arguments.outputs[static_cast<std::size_t>(outputs_[i].output)]
                       : static_cast<std::byte*>(arguments.workspace) + outputs_[i].workspace;
    }
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
          entry.run(part_inputs, part_outputs,
                    static_cast<std::byte*>(arguments.workspace) + part.workspace, entry.begin,
                    entry.end);
        }
      };
      device::parallel_for(static_cast<std::int64_t>(wave.pieces.size()) - 1, 1, run);
    }
    for (const Copy& copy : copies_) {
      std::memcpy(arguments.outputs[static_cast<std::size_t>(copy.to)],
                  arguments.outputs[static_cast<std::size_t>(copy.from)], copy.bytes);
    }
    return ok_status();
  }
  std::int64_t workspace_bytes() const override { return workspace_bytes_; }
  device::KernelOrigin origin() const override { return device::KernelOrigin::jit; }
  const std::string& name() const override { return name_; }

 private:
  // Where a part's pointers begin.
  struct Part {
    std::size_t inputs = 0, outputs = 0;
    std::int64_t workspace = 0;
  };
  struct Source {
    int input = 0;
    const ir::Literal* table = nullptr;
  };
  struct Target {
    int output = -1;
    std::int64_t workspace = 0;  // where nobody takes it
  };

  // A result that is taken twice.
  struct Copy {
    int from = 0, to = 0;
    std::size_t bytes = 0;
  };

  void place_parts(const ir::Instruction& fusion, const std::vector<HorizontalPart>& parts) {
    std::unordered_map<const ir::Instruction*, std::size_t> first_output;
    for (const HorizontalPart& part : parts) {
      parts_.push_back({inputs_.size(), outputs_.size(), workspace_bytes_});
      workspace_bytes_ += aligned_bytes(part.kernel->workspace_bytes());
      for (const ir::Instruction* operand : part.fusion->operands()) {
        inputs_.push_back({static_cast<int>(operand->attributes().parameter_number), nullptr});
      }
      for (const auto& table : part.kernel->tables()) inputs_.push_back({-1, table.get()});
      first_output.emplace(part.fusion, outputs_.size());
      outputs_.resize(outputs_.size() +
                      static_cast<std::size_t>(ir::leaf_count(part.fusion->shape())));
    }
    for (int leaf = 0; leaf < static_cast<int>(output_count_); ++leaf) {
      const ir::PartResult result = ir::horizontal_result(fusion, leaf);
      Target& target =
          outputs_[first_output.at(result.part) + static_cast<std::size_t>(result.leaf)];
      if (target.output < 0) {
        target.output = leaf;
        continue;
      }
      const ir::Shape& shape = *ir::leaves(fusion.shape())[static_cast<std::size_t>(leaf)];
      copies_.push_back({target.output, leaf, static_cast<std::size_t>(shape.byte_size())});
    }
    std::size_t next = 0;
    for (const HorizontalPart& part : parts) {
      for (const ir::Shape* shape : ir::leaves(part.fusion->shape())) {
        Target& target = outputs_[next++];
        if (target.output >= 0) continue;
        target.workspace = workspace_bytes_;
        workspace_bytes_ += aligned_bytes(shape->byte_size());
      }
    }
  }

  void list_work(const std::vector<HorizontalPart>& parts) {
    std::size_t most_phases = 0;
    for (const HorizontalPart& part : parts) {
      most_phases = std::max(most_phases, part.kernel->phases().size());
    }
    for (std::size_t p = 0; p < most_phases; ++p) {
      WaveWriter writer;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (p >= parts[i].kernel->phases().size()) continue;
        const Phase& phase = parts[i].kernel->phases()[p];
        const bool flat = parts[i].elements > 0;
        const std::int64_t units = flat ? parts[i].elements : phase.units;
        writer.add({parts[i].kernel->entry(p), static_cast<std::int32_t>(i), phase.unless_input,
                    phase.unless_output, 0, units},
                   phase.unit_seconds, flat ? kFlatUnit : 1);
      }
      waves_.push_back(writer.finish());
    }
  }

  std::string name_;
  std::size_t input_count_, output_count_;
  std::int64_t workspace_bytes_ = 0;
  std::vector<Part> parts_;
  std::vector<Source> inputs_;   // of all parts, one after the other
  std::vector<Target> outputs_;  // the same
  std::vector<Wave> waves_;
  std::vector<Copy> copies_;
  std::vector<std::shared_ptr<const PhasedKernel>> kernels_;
};

}  // namespace

std::shared_ptr<const device::Kernel> make_horizontal_kernel(const ir::Instruction& fusion,
                                                             std::vector<HorizontalPart> parts,
                                                             std::string name) {
  return std::make_shared<HorizontalKernel>(fusion, std::move(parts), std::move(name));
}

}  // namespace plimsoll::jit
