// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/kernel_provider.h"
#include "tests/device/cuda/recording_driver.h"

namespace plimsoll::device::cuda {

// backend::CudaKernels for a GPU of the recording driver, which runs each module as the grid
// emulator does (tests/jit/gpu/grid_emulator.h): what a GPU would run, but for what becomes of the
// LLVM IR from PTX on. Threads of a block take turns in an order of their own in every launch.
Result<std::shared_ptr<KernelProvider>> create_emulated_kernels(std::shared_ptr<CudaDevice> device,
                                                                RecordingDriver& driver);

}  // namespace plimsoll::device::cuda
