// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/cpu/contraction/dot_shape.h"
#include "runtime/device/kernel.h"

namespace plimsoll::kernels {

// The kernel of a dot of up to 12 rows (4 without AVX-512) by a large matrix whose rows lie
// together, which is read once, in long runs (kernels/cpu/products/few_rows_product.h). Of f32, and
// of bf16 where the machine multiplies pairs of it. Null for other dots.
std::shared_ptr<const device::Kernel> make_few_rows_dot(const ir::Instruction& instruction,
                                                        const DotShape& shape);

}  // namespace plimsoll::kernels
