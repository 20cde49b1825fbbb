// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"

namespace plimsoll::benchmarks {

// One program to be run as one kernel, written as HLO text with these places in it:
//   $T  the dtype, one of `dtypes` (each is a row of its own)
//   $N  elements of one array of the asked size
//   $R  $N / 1024, the rows of a matrix of 1024 columns; $E: $N / 8; $Q: $N / 64; $K: $N / 256;
//       $L: $N / 16384; $S: the square root of $N, down to a multiple of 64; $I: $N / 65536 (images
//       of 32 x 32 x 64); $H: half of $R
struct BandwidthCase {
  const char* name;
  const char* group;
  const char* dtypes;  // separated by spaces
  double aim;          // of the triad's bytes per second
  // The body of a computation. A parameter that the root (a tuple's element, in order) can be
  // written over has the name "inplaceK" for the K-th output: the two are one buffer then.
  const char* text;
};

// All of them, by group. A new case is a row in cases.def.
const std::vector<BandwidthCase>& bandwidth_cases();

struct PreparedCase {
  std::unique_ptr<ir::Module> module;
  const ir::Instruction* fusion = nullptr;  // the case as one fusion
  std::vector<int> in_place;                // per output, the operand whose buffer it takes, or -1
  // What the kernel must move: every operand and every output once, but of an operand that is only
  // sliced the slices, and of an update in place the update.
  std::int64_t bytes = 0;
};

// `array_bytes`: the size of one array of the case's dtype.
Result<PreparedCase> prepare(const BandwidthCase& c, const std::string& dtype,
                             std::int64_t array_bytes);

}  // namespace plimsoll::benchmarks
