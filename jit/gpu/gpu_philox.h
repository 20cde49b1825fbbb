// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <array>

namespace plimsoll::jit {

// philox::State (runtime/base/philox.h) as values, i64 each.
struct PhiloxState {
  llvm::Value *key, *low, *high;
};

// philox::block: four words, i32.
std::array<llvm::Value*, 4> philox_block(llvm::IRBuilder<>& b, const PhiloxState& state);

}  // namespace plimsoll::jit
