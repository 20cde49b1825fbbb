// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/device/cpu/phased_kernel.h"
#include "runtime/device/cpu/result_pieces.h"
#include "runtime/device/joint_launch.h"

namespace plimsoll::device {

// A kernel whose result is made in pieces, and one that computes elements from those at the same
// positions of it (a bias, an activation, a residual): each thread goes on with the piece that it
// has just made, which is in its cache, and threads are woken once. Units of the second that read
// two pieces run when all are made. Both have the bits that they have alone, whatever the pieces.
class CpuChainedLaunch final : public JointLaunch {
 public:
  // Null where they can't be chained: `first`, of so many inputs, and `second`, which reads its
  // result as input `input`. Both must outlive the launch.
  static std::shared_ptr<const CpuChainedLaunch> create(const ResultPieces& first,
                                                        std::size_t first_inputs,
                                                        const PhasedKernel& second,
                                                        std::size_t input);

  std::size_t input_count() const override { return first_inputs_ + second_.input_count(); }
  std::size_t output_count() const override { return 1 + second_.output_count(); }
  // Returns when all is done.
  Status launch(Stream& stream, std::span<const void* const> inputs, std::span<void* const> outputs,
                std::span<void* const> workspaces) const override;

 private:
  // Units of the second kernel.
  struct Units {
    std::int64_t begin = 0, end = 0;
  };

  CpuChainedLaunch(const ResultPieces& first, std::size_t first_inputs, const PhasedKernel& second);

  const ResultPieces& first_;
  const std::size_t first_inputs_;
  const PhasedKernel& second_;
  const KernelPhase phase_;
  std::vector<Units> of_pieces_;  // that read one piece alone
  std::vector<Units> others_;
};

}  // namespace plimsoll::device
