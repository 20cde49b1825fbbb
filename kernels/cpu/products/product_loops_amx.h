// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/products/product_loops.h"

namespace plimsoll::kernels {

// The loops for AMX, whose panels of columns are those of `vectors` (loops for AVX512_BF16). Null
// where this machine has no tiles of bf16, or the process may not use them.
const ProductLoops<Bfloat16>* amx_bf16_loops(const ProductLoops<Bfloat16>& vectors);

}  // namespace plimsoll::kernels
