// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/IRBuilder.h>

// What AVX-512 has an instruction for and LLVM's plain operations do not become. Each function
// returns null where `allow` did not allow it for the module being written, or its operands are
// scalars: then the same bits are to be had in another way.
namespace plimsoll::jit {

struct KernelTarget;

namespace avx512 {

// Lets the code of `module` use what `target` has.
void allow(llvm::Module& module, const KernelTarget& target);

// Vectors of f32 may be used at all.
bool is_allowed(llvm::IRBuilderBase& b, llvm::Value* vector);

// a * 2^floor(n) for f32, rounded once; 0 or infinity where n is an infinity.
llvm::Value* times_power(llvm::IRBuilderBase& b, llvm::Value* a, llvm::Value* n);
// As runtime/base/math/binary.h has them; the significand in [1, 2) or `about_one`.
llvm::Value* fraction(llvm::IRBuilderBase& b, llvm::Value* t);
llvm::Value* exponent(llvm::IRBuilderBase& b, llvm::Value* x);
llvm::Value* significand(llvm::IRBuilderBase& b, llvm::Value* x, bool about_one);
// table[i % 16] for 16 floats and i32. Also of AVX2, in two halves.
llvm::Value* lookup(llvm::IRBuilderBase& b, llvm::Constant* table, llvm::Value* i);
// The greater (or smaller) of f32; NaN where either is, -0 below +0.
llvm::Value* extreme(llvm::IRBuilderBase& b, llvm::Value* x, llvm::Value* y, bool greater);

// f16 to f32 (every NaN is made quiet) and back, rounded.
llvm::Value* widen_f16(llvm::IRBuilderBase& b, llvm::Value* x);
llvm::Value* narrow_f16(llvm::IRBuilderBase& b, llvm::Value* x);

// f32 with every NaN as one whose lower half is zero.
llvm::Value* plain_nan(llvm::IRBuilderBase& b, llvm::Value* x);
// i32 bits of f32 plus what makes their upper half the nearest bf16; none of them a NaN that the
// sum would carry out of. Needs the integer dot product (VNNI).
llvm::Value* round_to_upper_half(llvm::IRBuilderBase& b, llvm::Value* bits);

// Both also return null where there is no such operand: i32 whose upper halves are 16 values of 16
// bits just loaded, the lower ones zero; and 16 upper halves that `value` takes from an i32 vector
// by a shift and a truncation.
llvm::Value* load_to_upper_halves(llvm::IRBuilderBase& b, llvm::Value* loaded);
llvm::Value* upper_halves_to_store(llvm::IRBuilderBase& b, llvm::Value* value);

}  // namespace avx512
}  // namespace plimsoll::jit
