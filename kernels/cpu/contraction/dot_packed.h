// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/cpu/contraction/dot_shape.h"
#include "runtime/device/kernel.h"

namespace plimsoll::kernels {

// The kernel of a dot whose operands are packed once for all threads (kernels/cpu/products), where
// the library would pack them in every piece that it is given, or doesn't multiply them at all: of
// large matrices, and of f32 by constants. Elements of a batch follow each other; a right operand
// without a batch may come prepared. Null for dots of types that are not multiplied so
// (visit_product.h), and those that are as fast otherwise.
std::shared_ptr<const device::Kernel> make_packed_dot(const ir::Instruction& instruction,
                                                      const DotShape& shape);

}  // namespace plimsoll::kernels
