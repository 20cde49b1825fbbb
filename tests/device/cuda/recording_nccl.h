// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/device/cuda/libraries/nccl.h"
#include "tests/device/cuda/recording_driver.h"

namespace plimsoll::device::cuda {

// NCCL for tests, without a GPU: the whole table of nccl.def for participants that are threads of
// this process, each with a recording driver of its own, by functions that hold whoever calls them
// to the library's contract. What is against it is among the violations of the caller's driver:
//
// - communicators that were never made, or are gone; another context than theirs; a stream of
//   another driver; calls while the communicator is busy in the background;
// - groups that are not begun, or not ended, messages outside of one;
// - members that come with another operation, type or count; messages of two lengths;
// - an end while operations are pending.
//
// Communicators never block: they are made, and groups of calls given to their streams, some
// questions (ncclCommGetAsyncError) later. Operations are work of the driver's streams, with every
// byte that they touch: it begins when all before it is done, and is done when all members have
// begun. Sums are added from the last member to the first, and halves rounded each time, unlike any
// order of ours. Calls count among the driver's, and can be made to fail as those are. Thread-safe;
// one at a time. Drivers must outlive it.
class RecordingNccl {
 public:
  // What a GPU's memory has less for a communicator.
  explicit RecordingNccl(std::int64_t communicator_bytes = 0);
  ~RecordingNccl();
  RecordingNccl(const RecordingNccl&) = delete;
  RecordingNccl& operator=(const RecordingNccl&) = delete;

  // Before the driver's contexts call anything.
  void attach(RecordingDriver& driver);
  const Nccl& table() const;
  // From now on operations begin and never end, unless they are aborted.
  void hang();
  // From the driver's n-th question from now on its communicators answer with an error.
  void fail_in_background(RecordingDriver& driver, int n = 1);
  // What was made and is neither destroyed nor aborted: "2 communicators"; empty: nothing.
  std::string leaks() const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::device::cuda
