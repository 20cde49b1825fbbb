// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "jit/jit.h"
#include "runtime/device/device.h"
#include "runtime/device/kernel_provider.h"

namespace plimsoll::backend {

// The kernels of processors that are the host's: what the compiler takes is compiled, all else has
// a kernel of its own (kernels/), if any.
class CpuKernels final : public device::KernelProvider {
 public:
  // The compiler's options are what the environment says.
  static Result<std::shared_ptr<device::KernelProvider>> create(
      std::shared_ptr<device::Device> device);
  CpuKernels(std::shared_ptr<device::Device> device, std::unique_ptr<jit::Compiler> compiler);

  const std::shared_ptr<device::Device>& device() const override { return device_; }
  Result<std::shared_ptr<const device::Kernel>> kernel(const ir::Instruction& instruction) override;
  std::vector<Result<std::shared_ptr<const device::Kernel>>> kernels(
      std::span<const ir::Instruction* const> instructions) override;
  bool has_top_k() const override { return true; }
  bool has_sliced_operands() const override { return true; }
  Result<device::CodecKernels> codec(const ir::Codec& codec, const ir::Shape& shape) override;
  Result<std::shared_ptr<const device::JointLaunch>> join(
      std::span<const device::Kernel* const> parts) override;
  std::shared_ptr<const device::JointLaunch> chain(const device::Kernel& first,
                                                   std::size_t first_inputs,
                                                   const device::Kernel& second,
                                                   std::size_t input) override;
  Result<std::shared_ptr<const device::LaunchSequence>> sequence(const device::SequenceText& text,
                                                                 bool may_compile) override;
  device::KernelStatistics statistics() const override { return compiler_->statistics(); }

 private:
  const std::shared_ptr<device::Device> device_;
  const std::unique_ptr<jit::Compiler> compiler_;
};

}  // namespace plimsoll::backend
