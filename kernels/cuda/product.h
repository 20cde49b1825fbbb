// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cuda/gpu_library.h"
#include "kernels/cuda/product_shape.h"
#include "runtime/device/kernel.h"

namespace plimsoll::kernels::cuda {

// The most workspace that the library may choose an algorithm for: half of what operands and
// result take, so that a weight's gradient, a small result of many positions, may be added up in
// parts side by side, and 32 MiB.
std::int64_t most_workspace_bytes(const ProductShape& shape);

// The products of `shape`, by an algorithm that the library chooses here, once, by shape, dtypes
// and GPU alone: none whose order of adding may change from run to run, none that adds up in f16,
// or takes f32 for less where TF32 is not allowed. Its workspace is the kernel's. A launch is one
// call for each of shape.calls(), takes no memory and waits for nothing. Null where the library has
// no such algorithm.
Result<std::shared_ptr<const device::Kernel>> make_product(
    std::shared_ptr<const ProductLibrary> library, const ProductShape& shape);

}  // namespace plimsoll::kernels::cuda
