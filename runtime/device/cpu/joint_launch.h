// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/device/phased_kernel.h"

namespace plimsoll::device {

// Several kernels in one launch, its parts. The work of all of them is listed in one table, of
// which pieces of about equal time (a large part is in many, many small parts are in one) are
// shared out among threads. Phases of one part keep their order: the first phases of all parts,
// then the second ones, ... A part has the bits that it has alone. Immutable and thread-safe.
class JointLaunch {
 public:
  // `parts` must outlive the launch.
  explicit JointLaunch(std::span<const PhasedKernel* const> parts);

  // Pointers of a launch: of all parts, one after the other. A part's inputs have room for its
  // tables behind them.
  std::size_t input_count() const { return input_count_; }
  std::size_t output_count() const { return output_count_; }
  // Puts the tables' pointers into their places among `inputs`.
  void fill_tables(std::span<const void*> inputs) const;
  // `workspaces`: one per part. No part may write what another one reads or writes. Returns when
  // all is done.
  void run(std::span<const void* const> inputs, std::span<void* const> outputs,
           std::span<void* const> workspaces) const;

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
  // Where a part's pointers begin.
  struct Part {
    std::size_t inputs = 0, outputs = 0;
  };
  struct Table {
    std::size_t input = 0;
    const void* pointer = nullptr;
  };

  std::size_t input_count_ = 0, output_count_ = 0;
  std::vector<Part> parts_;
  std::vector<Table> tables_;
  std::vector<Wave> waves_;
};

}  // namespace plimsoll::device
