// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/products/product_loops.h"

namespace plimsoll::kernels {

// The loops for AMX, whose panels of columns are those of `vectors` (loops for AVX512_BF16). Null
// where this machine has no tiles of bf16, or the process may not use them.
const ProductLoops<Bfloat16>* amx_bf16_loops(const ProductLoops<Bfloat16>& vectors);

// The same for bytes, which pack columns as `pack` does.
const ProductLoops<std::uint8_t>* amx_byte_loops(bool lhs_has_sign, bool rhs_has_sign,
                                                 decltype(ProductLoops<std::uint8_t>::pack) pack);

}  // namespace plimsoll::kernels
