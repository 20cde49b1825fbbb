// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <vector>

namespace plimsoll::jit {

// Elements farther apart than this are loaded one by one.
inline constexpr std::int64_t kMostApart = 4;

// Elements 0, stride, 2 stride, ... of those that begin at `first`, as `vector`: by whole vectors
// that begin at the first and end at the last of them, and shuffles. 2 <= stride <= kMostApart, at
// most the vector's lanes.
llvm::Value* load_apart(llvm::IRBuilderBase& b, llvm::FixedVectorType* vector, llvm::Value* first,
                        std::int64_t stride, llvm::Align alignment);

// Vectors of one type by turns: the first lanes of all, then the second ones, ..., in as many
// vectors of that type.
std::vector<llvm::Value*> by_turns(llvm::IRBuilderBase& b,
                                   const std::vector<llvm::Value*>& vectors);

}  // namespace plimsoll::jit
