// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"
#include "runtime/planner/codec.h"

namespace plimsoll::executor {

// Decoding as a part of what reads the value: the value is never there as a whole.
//   narrow, bfloat16, float16: wherever it is read, its elements are converted.
//   bit_mask, compare_mask: where each element is read at its own place.
//   int8, int4: nowhere; an element's scale lies elsewhere.
// Pure.

// Whether `decode_inside` can be asked for this input of this instruction, whose kernel is a
// compiled one.
bool can_decode_inside(const ir::Instruction& instruction, const planner::EncodedInput& input);

// The instruction as a fusion that decodes these inputs itself: the root of the module's entry. An
// input is then of the stored dtype, in the dims of the value; of masks, it is the u32[] that the
// bits fill, the first in the lowest bit of the first word, as far as there are elements.
// Precondition: can_decode_inside each.
std::unique_ptr<ir::Module> decode_inside(const ir::Instruction& instruction,
                                          std::span<const planner::EncodedInput> inputs);

}  // namespace plimsoll::executor
