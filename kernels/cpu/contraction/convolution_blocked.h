// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/cpu/kernel_base.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// The definition in convolution_shape.h by tiles: any dtype, any attribute. What a tile of outputs
// reads is widened to the accumulator's type side by side, for multiply_tile. The order of
// summation is window positions, major to minor, then input features, products rounded. Up to 64
// KiB of a thread's stack.
std::shared_ptr<const device::Kernel> make_blocked_convolution(const ir::Instruction& instruction);

}  // namespace plimsoll::kernels
