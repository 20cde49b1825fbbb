// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/cpu/contraction/dot_shape.h"
#include "runtime/device/kernel.h"

namespace plimsoll::kernels {

// The kernel of a dot of up to 12 rows (4 without AVX-512) by a large matrix whose rows or columns
// lie together, or of a large matrix by a vector: the matrix is read once, as it lies, in long runs
// (kernels/cpu/products/few_rows_product.h). Null for other dots, of types that are not multiplied
// so (visit_product.h), and those that are as fast otherwise.
std::shared_ptr<const device::Kernel> make_few_rows_dot(const ir::Instruction& instruction,
                                                        const DotShape& shape);

}  // namespace plimsoll::kernels
