// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "runtime/base/status.h"
#include "runtime/device/kernel.h"

namespace plimsoll::device {

// A kernel of the host whose one result is made piece by piece may be this, too: whoever reads the
// result can do so with a piece while it is still near (chained_launch.h). A launch is `begin`, and
// then every piece. Immutable and thread-safe, as kernels are; not of origin `jit`.
class ResultPieces {
 public:
  virtual ~ResultPieces() = default;
  // Piece i is elements [ends[i - 1], ends[i]) of the result, in row-major order; none: it is not
  // made so.
  virtual std::span<const std::int64_t> piece_ends() const = 0;
  // What all pieces need.
  virtual Status begin(const KernelArguments& arguments) const = 0;
  // Pieces may run at the same time, and in any order.
  virtual Status run_piece(const KernelArguments& arguments, std::int64_t piece) const = 0;
};

}  // namespace plimsoll::device
