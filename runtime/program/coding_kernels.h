// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/ir/codec/codec.h"
#include "runtime/ir/module.h"

namespace plimsoll::executor {

// Larger fusions are near the limits of what is compiled as one kernel, and code nothing.
inline constexpr int kMostCodingInstructions = 256;

// A mask is stored as words of so many elements.
inline constexpr std::int64_t kWordBits = 32;

// The instruction as a fusion that decodes and encodes itself what `coding` says: the root of the
// module's entry. Its operands are the instruction's, but in the form that is stored, and its
// results those of the instruction that are kept, then the codes. `only_code`: per result leaf,
// whether there is nothing but its code. Dims may differ, what lies in memory doesn't.
// Precondition: can_fuse_decode and can_fuse_encode each. Pure.
std::unique_ptr<ir::Module> with_coding(const ir::Instruction& instruction,
                                        const ir::Coding& coding,
                                        const std::vector<bool>& only_code);

// Whether the instruction is of a kind that with_coding takes: a fusion that is compiled as a
// whole, or one elementwise operation.
bool can_code(const ir::Instruction& instruction);

}  // namespace plimsoll::executor
