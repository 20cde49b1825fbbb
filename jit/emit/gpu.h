// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/IRBuilder.h>

// What the values of a GPU's kernels need that those of a CPU's do not.
//
// A GPU makes every NaN of arithmetic the one with all bits of its fraction set, so that nothing is
// known of the bits of a NaN; it has scalar instructions alone, integer division among them; and it
// calls no function of the host.
namespace plimsoll::jit::gpu {

// The code of `module` is for a GPU.
void allow(llvm::Module& module);
bool is_target(llvm::IRBuilderBase& b);

// The function of a math::LaneFunction's symbol (huge_argument.h), f64 to f64, written into the
// module where it is not there yet, with the bits of the host's.
llvm::Function* huge_argument_function(llvm::Module& module, llvm::StringRef symbol);

// x - n * y for the whole n towards zero, exact: fmod. Scalars or vectors of f32 or f64.
llvm::Value* remainder(llvm::IRBuilderBase& b, llvm::Value* x, llvm::Value* y);

}  // namespace plimsoll::jit::gpu
