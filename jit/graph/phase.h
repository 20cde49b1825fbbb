// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::jit {

// One parallel loop of a kernel: a function over units [0, units), which write disjoint memory.
// What is added here must also be added to what is kept on disk (cache_entry.cc).
struct Phase {
  std::string function;
  std::int64_t units = 0;
  double unit_seconds = 0;  // estimate
  // Not run when this input and this output are the same buffer; -1: always run.
  int unless_input = -1, unless_output = -1;
  // Where every unit is the next so many elements of each result, in row-major order (of the last
  // one fewer), and a bit for each of the first 64 inputs that is read at the very positions that
  // are written; else 0.
  std::int64_t run_elements = 0;
  std::uint64_t own_inputs = 0;
};

// A kernel as machine code that is not loaded yet: phases run one after the other.
struct KernelObject {
  std::vector<Phase> phases;
  std::int64_t workspace_bytes = 0;
  std::string object;  // a relocatable object file
};

}  // namespace plimsoll::jit
