// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "benchmarks/replayer/model.h"
#include "runtime/base/status.h"

namespace plimsoll::replayer {

struct ReplayOptions {
  std::int64_t limit_bytes = 0;
  bool addresses = false;  // the schedule says where storages lie, and the limit counts that
};

struct Replay {
  std::int64_t nanoseconds = 0;      // of everything that ran
  double overhead_percent = 0;       // over running everything once
  std::int64_t runs = 0;             // of operations
  std::int64_t peak_bytes = 0;       // constants included
  std::int64_t peak_with_holes = 0;  // with addresses: constants, and the highest end of a storage
};

// Walks a schedule, one action a line:
//   c OPERATION [STORAGE@OFFSET ...]   runs an operation; with addresses, where what it makes lies
//   f STORAGE                          frees a storage, which undefines all its tensors
// An operation needs all its arguments, then allocates all its fresh outputs, also those that are
// still there, whose copies are freed right after (with addresses, such a copy may lie in any hole
// below the limit). Constants are always there, beside the addresses. Every operation must run, and
// all results must be there at the end.
// FAILED_PRECONDITION names the line of the first violation.
Result<Replay> replay(const Model& model, std::string_view schedule, const ReplayOptions& options);

}  // namespace plimsoll::replayer
