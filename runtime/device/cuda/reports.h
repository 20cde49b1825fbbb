// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/base/status.h"
#include "runtime/device/cuda/pinned_memory.h"

namespace plimsoll::device::cuda {

// How kernels of a stream say that they could not do what they were asked for: each launch of one
// that may gets a word of pinned host memory, which it leaves at zero where all is well. Functions
// that the stream calls on the host say it by a call. Thread-safe.
class Reports {
 public:
  // Launches of such kernels between two looks.
  static constexpr int kWords = 1024;

  // `memory` must outlive it.
  static Result<std::shared_ptr<Reports>> create(PinnedMemory& memory);
  ~Reports();
  Reports(const Reports&) = delete;
  Reports& operator=(const Reports&) = delete;

  // The word of one more launch, of the kernel `name`; null where all are taken.
  std::uint32_t* next(const std::string& name);
  // What a function on the host ended with; the first one counts. Calls nothing of the driver's.
  void fail(const Status& status);
  // The first error of a function on the host; else DATA_LOSS, with the kernel's name, for the
  // first launch that has said something; both of those that have ended.
  Status look() const;
  // The same, of launches that have ended: forgets what they said, and, with `take`, the launches.
  Status read();
  Status take();
  bool is_empty() const;

 private:
  Reports(PinnedMemory& memory, void* words)
      : memory_(memory), words_(static_cast<std::uint32_t*>(words)) {}
  Status first() const;
  void forget();

  PinnedMemory& memory_;
  std::uint32_t* const words_;
  mutable std::mutex mutex_;
  std::array<std::string, kWords> names_;
  int taken_ = 0;
  Status failed_;  // of functions on the host
};

}  // namespace plimsoll::device::cuda
