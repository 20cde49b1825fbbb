// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/device/cuda/libraries/cublaslt.h"
#include "tests/device/cuda/recording_driver.h"

namespace plimsoll::device::cuda {

// cuBLASLt for tests, without a GPU: the whole table of cublaslt.def for GPUs of a recording
// driver, by functions that hold whoever calls them to the library's contract. What is against it
// is among the driver's violations:
//
// - handles and descriptors that were never made, or are destroyed; a handle whose context is not
//   current on the thread;
// - matrices that do not belong together, a leading dimension that is too short, a batch of one
//   side alone;
// - preferences that leave anything to the library that may change bits from run to run, or f32;
// - an algorithm with other matrices than those that it was chosen for, or with less workspace;
// - pointers that are aligned worse than was said, or than 256 bytes (the workspace), factors other
// than 1 and 0.
//
// Products are work of the driver's streams and graphs, with every byte of the operands, of the
// result and of the workspace that they touch; they are computed then, by the host. Where workspace
// is allowed for it, sums are cut in two parts that it keeps, so that what one call is given shows
// in its bits. Its calls count among the driver's, and can be made to fail as those are.
// Thread-safe. One a driver, which must outlive it.
class RecordingCublaslt {
 public:
  // What the GPU's memory has less for a handle, and for the first product of each kind.
  explicit RecordingCublaslt(RecordingDriver& driver, std::int64_t handle_bytes = 0,
                             std::int64_t code_bytes = 0);
  ~RecordingCublaslt();
  RecordingCublaslt(const RecordingCublaslt&) = delete;
  RecordingCublaslt& operator=(const RecordingCublaslt&) = delete;

  const Cublaslt& table() const;
  // From now on there is an algorithm for no product.
  void know_nothing();
  // What was made and is not destroyed yet: "1 handles, 2 layouts"; empty: nothing.
  std::string leaks() const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::device::cuda
