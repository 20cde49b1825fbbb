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
  std::int64_t link_bytes_per_second = 0;  // to and from host memory; 0: nothing is copied there
  std::int64_t host_limit_bytes = -1;      // of the copies there at any moment; -1: none
};

struct Replay {
  std::int64_t nanoseconds = 0;      // of everything that ran, and of waiting for copies
  double overhead_percent = 0;       // over running everything once
  std::int64_t runs = 0;             // of operations
  std::int64_t peak_bytes = 0;       // constants included
  std::int64_t peak_with_holes = 0;  // with addresses: constants, and the highest end of a storage
  std::int64_t swapped_bytes = 0;    // copied out
  std::int64_t stalled_nanoseconds = 0;  // of waiting for copies
  std::int64_t host_peak_bytes = 0;      // of the copies on the host
};

// Replays a schedule, one action a line:
//   c OPERATION [STORAGE@OFFSET ...]   runs an operation; with addresses, where what it makes lies
//   f STORAGE                          frees a storage, which undefines all its tensors
//   o STORAGE                          starts to copy a storage out to host memory
//   i STORAGE                          starts to copy it in again
//   w STORAGE                          waits until its copy out or in is over
// An operation needs all its arguments, then allocates all its fresh outputs, also those that are
// still there, whose copies are freed right after (with addresses, such a copy may lie in any hole
// below the limit). Constants are always there, beside the addresses. Every operation must run, and
// all results must be there at the end.
// Copies need a link, and exclude addresses. Those of one direction follow one another, each taking
// 10 us and its bytes over the link's speed, beside the operations; only waiting takes time. What
// is copied out can't be freed before the wait, and can be copied in any number of times after it.
// What is copied in takes its bytes from the start on, can be read after the wait, and brings the
// views of it that had been made. Every copy must be waited for. A copy takes host memory from the
// start of the copy out until the wait for the last copy in that is made of it.
// FAILED_PRECONDITION names the line of the first violation.
Result<Replay> replay(const Model& model, std::string_view schedule, const ReplayOptions& options);

}  // namespace plimsoll::replayer
