// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/kernel_base.h"

namespace plimsoll::kernels {

// A convolution of bytes, s8 or u8 in any pair, to integers of one byte or of four, as products of
// what the windows see by the filters, in bytes, where the machine adds up four of their products
// at once: exact, but for results, which wrap. Of any padding, strides, dilations, groups and
// order of dimensions. Null for others, and for filters so small that packing would be most of it.
std::shared_ptr<const device::Kernel> make_byte_convolution(const ir::Instruction& instruction);

}  // namespace plimsoll::kernels
