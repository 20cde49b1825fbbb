// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/status.h"
#include "runtime/device/cuda/context.h"
#include "runtime/device/cuda/module.h"

namespace plimsoll::device::cuda {

// Small copies within the GPU's memory by a kernel, as graphs have them: loops copy their state,
// which is little, and a launch in a graph takes less than a copy by a stream.
class SmallCopies {
 public:
  static constexpr std::int64_t kMostBytes = std::int64_t{1} << 20;
  // Copies take addresses that are multiples of it.
  static constexpr std::uint64_t kPiece = 16;
  static constexpr std::uint32_t kThreads = 256;  // of a block, with a piece each

  // The kernel, as PTX: an entry kEntry of (to, from, bytes).
  static const std::string& text();
  static constexpr const char* kEntry = "plimsoll_copy";

  static Result<std::shared_ptr<const SmallCopies>> create(std::shared_ptr<const Context> context);
  FunctionHandle function() const { return function_; }

 private:
  std::shared_ptr<Module> module_;
  FunctionHandle function_ = nullptr;
};

}  // namespace plimsoll::device::cuda
