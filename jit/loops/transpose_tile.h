// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <vector>

namespace plimsoll::jit {

// Transposes a square of 2^n elements a side in registers: vector r of the result holds element r
// of every one of `rows`. Halves are interleaved within the 128-bit lanes first and whole lanes are
// moved last, each in an instruction that x86 has without a vector of indices.
// Precondition: as many vectors as each has elements.
std::vector<llvm::Value*> transpose_tile(llvm::IRBuilder<>& builder,
                                         std::vector<llvm::Value*> rows);

}  // namespace plimsoll::jit
