// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/kernel_base.h"

namespace plimsoll::kernels {

// A convolution of halves, or of integers of a byte whose sums f32 holds, as one of f32: the filter
// is widened, and then one block of images after the other, whose results are rounded. Null where
// there is nothing to widen, or where the library has no fast code for the convolution of f32.
std::shared_ptr<const device::Kernel> make_widened_convolution(const ir::Instruction& instruction);

}  // namespace plimsoll::kernels
