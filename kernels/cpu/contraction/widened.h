// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/ir/dtype.h"

// Neighbours in memory as f32, exactly, and back. On the calling thread.
namespace plimsoll::kernels {

bool is_f32_or_half(ir::DType dtype);
// s8, u8, pred.
bool is_byte(ir::DType dtype);

// Of either.
void widen_run(ir::DType dtype, const void* from, float* to, std::int64_t count);
// Floats are rounded to nearest even; of whole numbers below 2^31 integers get the low bits, pred
// whether they are not zero.
void narrow_run(ir::DType dtype, const float* from, void* to, std::int64_t count);

}  // namespace plimsoll::kernels
