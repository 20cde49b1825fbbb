// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ir/codec/codec.h"
#include "runtime/ir/module.h"

namespace plimsoll::executor {

// Decoding as a part of what reads the value: the value is never there as a whole.
//   narrow, bfloat16, float16: wherever it is read, its elements are converted.
//   bit_mask, compare_mask: where each element is read at its own place.
//   int8, int4: nowhere; an element's scale lies elsewhere.

// Whether decode_inside does it for an instruction whose kernel is a compiled one. Pure.
bool can_decode_inside(const ir::Instruction& instruction, const planner::EncodedInput& input);

// The computation of the instruction reads a parameter as it was encoded: it is then of the stored
// dtype; of masks, the u32[] that the bits fill, the first in the lowest bit of the first word. May
// leave instructions out of order.
void decode_inside(ir::Computation& body, const planner::EncodedInput& input);

}  // namespace plimsoll::executor
