// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cpu/chained_launch.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::device {

std::shared_ptr<const CpuChainedLaunch> CpuChainedLaunch::create(const ResultPieces& first,
                                                                 std::size_t first_inputs,
                                                                 const PhasedKernel& second,
                                                                 std::size_t input) {
  const auto phases = second.phases();
  if (first.piece_ends().empty() || phases.size() != 1 || input >= 64) return nullptr;
  const KernelPhase& phase = phases[0];
  if (phase.run_elements == 0 || phase.unless_input >= 0 || (phase.own_inputs >> input & 1) == 0) {
    return nullptr;
  }
  return std::shared_ptr<const CpuChainedLaunch>(new CpuChainedLaunch(first, first_inputs, second));
}

// Example: pieces of 100 and 100 elements, units of 32: units 0 to 2 read the first piece alone,
// units 4 to 6 (which ends with the elements) the second, and unit 3 both.
CpuChainedLaunch::CpuChainedLaunch(const ResultPieces& first, std::size_t first_inputs,
                                   const PhasedKernel& second)
    : first_(first), first_inputs_(first_inputs), second_(second), phase_(second.phases()[0]) {
  const std::int64_t step = phase_.run_elements * phase_.cut;
  std::int64_t begin = 0, done = 0;
  const auto ends = first.piece_ends();
  for (std::size_t i = 0; i < ends.size(); ++i) {
    Units units{(begin + step - 1) / step * phase_.cut,
                i + 1 == ends.size() ? phase_.units : ends[i] / step * phase_.cut};
    units.end = std::max(units.begin, units.end);
    of_pieces_.push_back(units);
    if (units.begin < units.end) {
      if (done < units.begin) others_.push_back({done, units.begin});
      done = units.end;
    }
    begin = ends[i];
  }
  if (done < phase_.units) others_.push_back({done, phase_.units});
}

Status CpuChainedLaunch::launch(Stream&, std::span<const void* const> inputs,
                                std::span<void* const> outputs,
                                std::span<void* const> workspaces) const {
  if (inputs.size() != input_count() || outputs.size() != output_count() ||
      workspaces.size() != 2) {
    return internal_error("a chained launch: " + std::to_string(inputs.size()) + " inputs and " +
                          std::to_string(outputs.size()) + " outputs (it takes " +
                          std::to_string(input_count()) + " and " + std::to_string(output_count()) +
                          ")");
  }
  const KernelArguments made{inputs.first(first_inputs_), outputs.first(1), workspaces[0]};
  std::vector<const void*> read(inputs.begin() + static_cast<std::ptrdiff_t>(first_inputs_),
                                inputs.end());
  read.insert(read.end(), second_.tables().begin(), second_.tables().end());
  void* const* const written = outputs.data() + 1;
  const auto run_units = [&](const Units& units) {
    if (units.begin < units.end) {
      phase_.run(read.data(), written, workspaces[1], units.begin, units.end);
    }
  };
  PLIMSOLL_RETURN_IF_ERROR(first_.begin(made));
  std::mutex mutex;
  Status failure;  // the first
  parallel_for(std::ssize(of_pieces_), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t piece = begin; piece < end; ++piece) {
      Status status = first_.run_piece(made, piece);
      if (status.ok()) {
        run_units(of_pieces_[at(piece)]);
        continue;
      }
      const std::lock_guard lock(mutex);
      if (failure.ok()) failure = std::move(status);
    }
  });
  PLIMSOLL_RETURN_IF_ERROR(std::move(failure));
  for (const Units& units : others_) run_units(units);
  return ok_status();
}

}  // namespace plimsoll::device
