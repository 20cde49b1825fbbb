// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/kernel_provider.h"
#include "tests/device/cuda/recording_cublaslt.h"
#include "tests/device/cuda/recording_cudnn.h"
#include "tests/device/cuda/recording_driver.h"

namespace plimsoll::device::cuda {

using MakeKernels = Result<std::shared_ptr<KernelProvider>> (*)(std::shared_ptr<CudaDevice> device,
                                                                RecordingDriver& driver);

// A GPU by a driver of its own, with the CPU's kernels (dressed_kernels.h) unless told otherwise.
class RecordedGpu {
 public:
  explicit RecordedGpu(const RecordingOptions& options = {}, int ordinal = 0,
                       MakeKernels make_kernels = nullptr);

  // Made at the first call.
  const std::shared_ptr<KernelProvider>& provider();
  // Gives up the GPU, which nobody may use any more; what was wrong, and what is left of it.
  std::string close();

  RecordingDriver driver;
  // Null: there is no such library.
  std::unique_ptr<RecordingCublaslt> products;
  std::unique_ptr<RecordingCudnn> convolutions;
  std::shared_ptr<CudaDevice> device;

 private:
  const MakeKernels make_kernels_;
  std::once_flag provider_once_;
  std::shared_ptr<KernelProvider> provider_;
};

// GPUs that are known by their names as of the first call, and never freed: "cuda:0" maps memory
// and works late, "cuda:1" takes memory block by block and works in mixed order, "cuda:2" maps
// memory and works at once.
RecordedGpu& recorded_gpu(int ordinal);

// "" where the GPU's driver has seen nothing wrong, and nothing is left to be done.
std::string complaints(const RecordedGpu& gpu);

}  // namespace plimsoll::device::cuda
