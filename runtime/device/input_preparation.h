// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/base/status.h"
#include "runtime/device/kernel.h"

namespace plimsoll::device {

// A kernel that brings one of its inputs into another form at every launch, such as weights into a
// library's own layout, may have this (Kernel::input_preparation): whoever has an input that is
// always the same prepares it once, and runs the kernel that takes it prepared. The results have
// the same bits. Immutable and thread-safe, as kernels are.
class InputPreparation {
 public:
  virtual ~InputPreparation() = default;
  // The input, among those of the launch.
  virtual int prepared_input() const = 0;
  // Of the prepared form; 0: there is none, as the input is used as it is.
  virtual std::int64_t prepared_bytes() const = 0;
  // Writes prepared_bytes() to `prepared`. Both are host memory, `plain` as a launch would have it.
  virtual Status prepare(const void* plain, void* prepared) const = 0;
  // The kernel that takes the prepared form in the input's place, and no more workspace than this.
  virtual std::shared_ptr<const Kernel> taking_prepared() const = 0;
};

}  // namespace plimsoll::device
