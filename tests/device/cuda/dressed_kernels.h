// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/kernel_provider.h"
#include "tests/device/cuda/recording_driver.h"

namespace plimsoll::device::cuda {

// The CPU's kernels, each dressed as a module for a GPU whose only entry runs it, for programs on
// the recording driver: loading, launches, workspaces, reports and everything around them is what a
// GPU's kernels go through. There is no kernel for collectives, which need the stream.
class DressedKernels final : public KernelProvider {
 public:
  static Result<std::shared_ptr<KernelProvider>> create(std::shared_ptr<CudaDevice> device,
                                                        RecordingDriver& driver);

  const std::shared_ptr<Device>& device() const override { return base_; }
  Result<std::shared_ptr<const Kernel>> kernel(const ir::Instruction& instruction) override;
  std::vector<Result<std::shared_ptr<const Kernel>>> kernels(
      std::span<const ir::Instruction* const> instructions) override;
  Result<CodecKernels> codec(const ir::Codec& codec, const ir::Shape& shape) override;
  Result<std::shared_ptr<const JointLaunch>> join(std::span<const Kernel* const> parts) override;
  KernelStatistics statistics() const override { return cpu_->statistics(); }

 private:
  DressedKernels(std::shared_ptr<CudaDevice> device, RecordingDriver& driver,
                 std::shared_ptr<KernelProvider> cpu, std::shared_ptr<Stream> stream)
      : device_(device),
        base_(std::move(device)),
        driver_(driver),
        cpu_(std::move(cpu)),
        stream_(std::move(stream)) {}
  Result<std::shared_ptr<const Kernel>> dressed(std::shared_ptr<const Kernel> kernel,
                                                std::size_t inputs, std::size_t outputs);

  const std::shared_ptr<CudaDevice> device_;
  const std::shared_ptr<Device> base_;
  RecordingDriver& driver_;
  const std::shared_ptr<KernelProvider> cpu_;
  const std::shared_ptr<Stream> stream_;
  std::mutex mutex_;
  std::map<const Kernel*, std::weak_ptr<const Kernel>> made_;
};

}  // namespace plimsoll::device::cuda
