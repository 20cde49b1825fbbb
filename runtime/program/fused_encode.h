// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "runtime/ir/codec/codec.h"
#include "runtime/ir/module.h"

namespace plimsoll::executor {

// Encoding as a part of what makes the value, by the layout of the codec.
//   elements: they are converted.
//   bits: words of 32 bits, each a reduction of a row of as many elements; where
//     all that is computed is elementwise or a broadcast, and rows fill the value.
//   blocks, and codecs that change bits: nowhere, as their encoders look at every element and may
//   refuse it.

// Whether fuse_encode does it for an instruction whose kernel is a compiled one. Pure.
bool can_fuse_encode(const ir::Instruction& instruction, const ir::EncodedOutput& output);

// The codes of these results of the computation, each an instruction of it. With masks, what is
// as large as the results has other dims afterwards, with the elements in the same order, and so
// have parameters. May leave instructions out of order.
std::vector<ir::Instruction*> fuse_encode(ir::Computation& body,
                                          std::span<const ir::EncodedOutput> outputs);

}  // namespace plimsoll::executor
