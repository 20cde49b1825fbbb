// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/kernel_provider.h"
#include "runtime/program/program.h"
#include "runtime/trace/cut/program_cache.h"

namespace plimsoll::trace {

// A program as a sequence of smaller ones, one for each of its instructions, with the same kernels
// and therefore the same bits. What lies between two of them are values that may be evicted and
// restored, so that the sequence runs in less memory than the program whose parameters must all
// be there at once. Values are arrays, numbered: the leaves of the parameters first.
struct Segments {
  struct Segment {
    CachedProgram program;
    std::vector<int> inputs;   // by parameter; no duplicates
    std::vector<int> outputs;  // by result leaf
  };
  std::vector<Segment> list;
  int value_count = 0;
  std::vector<std::int64_t> bytes;  // by value
  std::vector<int> element_bytes;   // by value
  std::vector<int> results;         // by result leaf: each an output of a segment, no duplicates
  std::vector<int> last_use;        // by value: the last segment that reads it; -1: none
};

// UNIMPLEMENTED for programs with side effects or tokens.
Result<std::shared_ptr<Segments>> make_segments(const executor::Program& program,
                                                const ProgramCache& cache);

}  // namespace plimsoll::trace
