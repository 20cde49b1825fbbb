// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "jit/gpu/gpu_kernel.h"
#include "kernels/cuda/convolution_shape.h"
#include "kernels/cuda/gpu_library.h"
#include "kernels/cuda/product_shape.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/cuda/cuda_kernel.h"
#include "runtime/device/kernel_provider.h"

namespace plimsoll::backend {

// The kernels of one of NVIDIA's GPUs: products and convolutions by the device's libraries, where
// there are any and they take them; else what the compiler makes for its compute capability,
// loaded; copies of the driver's for what only moves data (device_copies.h); and else the CPU's
// kernel, which runs on the host in the stream's order (host_kernel.h) and is named on the log,
// once an operation. Equal instructions share a compiled kernel for as long as one of them has it.
class CudaKernels final : public device::KernelProvider {
 public:
  // INVALID_ARGUMENT for another device; UNIMPLEMENTED for a GPU that is too old; what
  // jit::GpuCompiler::create says, else.
  static Result<std::shared_ptr<device::KernelProvider>> create(
      std::shared_ptr<device::Device> device);

  const std::shared_ptr<device::Device>& device() const override { return base_; }
  Result<std::shared_ptr<const device::Kernel>> kernel(const ir::Instruction& instruction) override;
  std::vector<Result<std::shared_ptr<const device::Kernel>>> kernels(
      std::span<const ir::Instruction* const> instructions) override;
  Result<device::CodecKernels> codec(const ir::Codec& codec, const ir::Shape& shape) override;
  Result<std::shared_ptr<const device::JointLaunch>> join(
      std::span<const device::Kernel* const> parts) override;
  // Code is in device memory, that of kernels which run on the host in host memory.
  device::KernelStatistics statistics() const override;

 private:
  using CudaKernel = device::cuda::CudaKernel;
  struct Loaded {
    std::shared_ptr<const jit::GpuKernel> code;  // by whose address it is found
    std::weak_ptr<const CudaKernel> kernel;
  };
  CudaKernels(std::shared_ptr<device::cuda::CudaDevice> device,
              std::unique_ptr<jit::GpuCompiler> compiler,
              std::shared_ptr<const kernels::cuda::ProductLibrary> products);
  // Of a dot or a convolution; null where no library computes it.
  Result<std::shared_ptr<const device::Kernel>> by_library(const ir::Instruction& instruction);
  Result<std::shared_ptr<const device::Kernel>> product(const ir::Instruction& dot);
  Result<std::shared_ptr<const device::Kernel>> convolution(const ir::Instruction& instruction);
  Result<std::shared_ptr<const kernels::cuda::ConvolutionLibrary>> convolutions();
  // The kernel of `shape`, if there is one, and keeping it for those that ask later.
  template <typename Shape>
  std::shared_ptr<const device::Kernel> made(
      const std::map<Shape, std::weak_ptr<const device::Kernel>>& kernels, const Shape& shape);
  template <typename Shape>
  void keep(std::map<Shape, std::weak_ptr<const device::Kernel>>& kernels, const Shape& shape,
            const std::shared_ptr<const device::Kernel>& kernel);
  Result<std::shared_ptr<const device::Kernel>> compiled(const ir::Instruction& instruction);
  Result<std::shared_ptr<const device::Kernel>> load(std::shared_ptr<const jit::GpuKernel> code);
  // Of what the compiler has none for, and why. The reason where the CPU has none, either.
  Result<std::shared_ptr<const device::Kernel>> on_host(const ir::Instruction& instruction,
                                                        const Status& why);
  Result<device::CodecKernels> codec_on_host(const ir::Codec& codec, const ir::Shape& shape,
                                             const Status& why);
  Result<std::shared_ptr<device::KernelProvider>> cpu();
  // What has been said of operations that run on the host.
  struct Said {
    std::mutex mutex;
    std::set<std::string> operations;
    void say(const std::string& device, const std::string& operation, const Status& why);
  };

  const std::shared_ptr<device::cuda::CudaDevice> device_;
  const std::shared_ptr<device::Device> base_;
  const std::unique_ptr<jit::GpuCompiler> compiler_;
  const std::shared_ptr<const kernels::cuda::ProductLibrary> products_;  // null: there is none
  mutable std::mutex mutex_;
  std::unordered_map<const jit::GpuKernel*, Loaded> loaded_;
  std::map<kernels::cuda::ProductShape, std::weak_ptr<const device::Kernel>> made_products_;
  std::map<kernels::cuda::ConvolutionShape, std::weak_ptr<const device::Kernel>> made_convolutions_;
  std::mutex opening_;
  // As of the first convolution, as it takes memory; null: there is none.
  std::shared_ptr<const kernels::cuda::ConvolutionLibrary> convolutions_;
  device::KernelStatistics statistics_;
  const std::shared_ptr<Said> said_ = std::make_shared<Said>();  // kernels outlive this
  std::shared_ptr<device::KernelProvider> cpu_;                  // made when it is needed
};

}  // namespace plimsoll::backend
