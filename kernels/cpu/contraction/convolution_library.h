// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/cpu/contraction/convolution_shape.h"
#include "runtime/device/kernel.h"

namespace plimsoll::kernels {

// `convolution` by the library (convolution_onednn.h); null where that has no fast code for it.
//
// Group by group where all groups at once would pad the filters to several times their bytes: they
// are laid out in blocks of as many channels as a vector has lanes, which are mostly zeros where a
// group has few. So it is with the first layer's gradient of every single example, which is one
// convolution with as many groups as there are examples.
std::shared_ptr<const device::Kernel> make_library_convolution(
    const LibraryConvolution& convolution);

}  // namespace plimsoll::kernels
