// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/IRBuilder.h>

// What the values of a GPU's kernels need that those of a CPU's do not.
//
// A GPU makes every NaN of arithmetic the one with all bits of its fraction set, so that nothing is
// known of the bits of a NaN; it has scalar instructions alone, integer division among them; and it
// calls no function of the host.
namespace plimsoll::jit::gpu {

// The code of `module` is for a GPU of this compute capability (80 for 8.0) or a higher one.
void allow(llvm::Module& module, int compute_capability);
bool is_target(llvm::IRBuilderBase& b);
// 0: not for a GPU.
int compute_capability(const llvm::Module& module);

// f32 (a scalar or vector) as 16-bit floats and back, by a GPU's own conversions: rounded to
// nearest even, NaNs its own. Null where the target has none: no GPU, and bf16 before 8.0.
llvm::Value* narrow_bf16(llvm::IRBuilderBase& b, llvm::Value* x);
llvm::Value* narrow_f16(llvm::IRBuilderBase& b, llvm::Value* x);
llvm::Value* widen_f16(llvm::IRBuilderBase& b, llvm::Value* x);
// Vectors of an even number of bf16, one operation each. Null where the target is no GPU, and for
// other values.
llvm::Value* widen_bf16(llvm::IRBuilderBase& b, llvm::Value* x);

// The function of a math::LaneFunction's symbol (huge_argument.h), f64 to f64, written into the
// module where it is not there yet, with the bits of the host's.
llvm::Function* huge_argument_function(llvm::Module& module, llvm::StringRef symbol);

// x - n * y for the whole n towards zero, exact: fmod. Scalars or vectors of f32 or f64.
llvm::Value* remainder(llvm::IRBuilderBase& b, llvm::Value* x, llvm::Value* y);

}  // namespace plimsoll::jit::gpu
