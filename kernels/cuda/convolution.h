// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cuda/convolution_shape.h"
#include "kernels/cuda/gpu_library.h"
#include "runtime/device/kernel.h"

namespace plimsoll::kernels::cuda {

// The most workspace that the library may choose an algorithm for, by the rule for products.
std::int64_t most_workspace_bytes(const ConvolutionShape& shape);

// The convolution of `shape`, by an algorithm that the library chooses here, once, by shape, dtypes
// and GPU alone (ConvolutionDescription::choose). Filters that lie in another order than the
// library's are brought into it, or out of it, by `reorder`, which reads filters in the one and
// writes them in the other; null where they lie as they should. Those lie in the kernel's
// workspace, beside the algorithm's. A launch takes no memory and waits for nothing.
// Null where the library has no such algorithm.
Result<std::shared_ptr<const device::Kernel>> make_convolution(
    std::shared_ptr<const ConvolutionLibrary> library, const ConvolutionShape& shape,
    std::shared_ptr<const device::Kernel> reorder);

}  // namespace plimsoll::kernels::cuda
