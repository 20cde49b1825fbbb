// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "runtime/base/status.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/kernel_provider.h"
#include "runtime/ir/module.h"

namespace plimsoll::device {

// cuda:0 with its libraries and, once more, without; skipped where there is none.
class GpuLibraries : public ::testing::Test {
 protected:
  void SetUp() override;

  std::shared_ptr<cuda::CudaDevice> gpu_, plain_gpu_;
  // As programs have them; convolutions by the library wherever it has them; none by a library.
  std::shared_ptr<KernelProvider> with_libraries_, always_by_library_, own_, cpu_;
};

// Seconds of a launch of the instruction's kernel, the least of several rounds, by the device's own
// clock.
Result<double> seconds_of(KernelProvider& provider, const ir::Instruction& instruction);

}  // namespace plimsoll::device
