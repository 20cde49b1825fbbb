// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "runtime/base/status.h"

namespace plimsoll::device {

class Stream;

// Several kernels in one launch, its parts; each has the bits that it has alone. Made by
// KernelProvider::join, run by Stream::launch. Immutable and thread-safe.
class JointLaunch {
 public:
  virtual ~JointLaunch() = default;
  // Pointers of a launch: of all parts, one after the other.
  virtual std::size_t input_count() const = 0;
  virtual std::size_t output_count() const = 0;
  // What Stream::launch does with it: `stream` is one of its device.
  virtual Status launch(Stream& stream, std::span<const void* const> inputs,
                        std::span<void* const> outputs,
                        std::span<void* const> workspaces) const = 0;
};

}  // namespace plimsoll::device
