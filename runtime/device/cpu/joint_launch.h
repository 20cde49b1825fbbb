// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/device/cpu/phased_kernel.h"
#include "runtime/device/joint_launch.h"

namespace plimsoll::device {

// A joint launch on the host's threads. The work of all parts is listed in one table, of which
// pieces of about equal time (a large part is in many, many small parts are in one) are shared out
// among threads. Phases of one part keep their order: the first phases of all parts, then the
// second ones, ...
class CpuJointLaunch final : public JointLaunch {
 public:
  // `parts` must outlive the launch.
  explicit CpuJointLaunch(std::span<const PhasedKernel* const> parts);

  std::size_t input_count() const override { return input_count_; }
  std::size_t output_count() const override { return output_count_; }
  // Returns when all is done.
  Status launch(Stream& stream, std::span<const void* const> inputs, std::span<void* const> outputs,
                std::span<void* const> workspaces) const override;

 private:
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
  class WaveWriter;
  // Where a part's pointers begin. Behind its inputs come its tables.
  struct Part {
    std::size_t inputs = 0, outputs = 0;
    std::size_t input_count = 0;
    std::span<const void* const> tables;
  };
  void run(const void* const* inputs, void* const* outputs, void* const* workspaces) const;

  std::size_t input_count_ = 0, output_count_ = 0;
  std::size_t table_count_ = 0;
  std::vector<Part> parts_;
  std::vector<Wave> waves_;
};

}  // namespace plimsoll::device
