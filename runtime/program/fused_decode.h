// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ir/codec/codec.h"
#include "runtime/ir/module.h"

namespace plimsoll::executor {

// Decoding as a part of what reads the value: the value is never there as a whole.
// By the layout of the codec:
//   elements: wherever it is read, its elements are converted.
//   bits: where each element is read at its own place.
//   blocks: nowhere; an element's scale lies elsewhere.

// Whether fuse_decode does it for an instruction whose kernel is a compiled one. Pure.
bool can_fuse_decode(const ir::Instruction& instruction, const ir::EncodedInput& input);

// The computation of the instruction reads a parameter as it was encoded: it is then of the stored
// dtype; of masks, the u32[] that the bits fill, the first in the lowest bit of the first word. May
// leave instructions out of order.
void fuse_decode(ir::Computation& body, const ir::EncodedInput& input);

}  // namespace plimsoll::executor
