// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ir/module.h"

namespace plimsoll::passes::narrow_types {

// New instructions go to the end of the operand's computation and have its dims, unless said
// otherwise. `dtype` is narrow.

// What holds a value of `dtype` within programs: s8 or u8 in the integer's range; a float's code.
constexpr ir::DType code_dtype(ir::DType dtype) {
  return dtype == ir::DType::s2 || dtype == ir::DType::s4 ? ir::DType::s8 : ir::DType::u8;
}

// The value as another dtype, itself if it is of that.
ir::Instruction* converted(ir::Instruction* value, ir::DType dtype);

// Floats: u8 to f32, exactly; NaNs keep their sign where the format has one.
ir::Instruction* decode(ir::Instruction* code, ir::DType dtype);
// Floats: f32 to u8, as ir::narrow_code has it.
ir::Instruction* encode(ir::Instruction* number, ir::DType dtype);
// Integers: s8 or u8 to its low bits, in the dtype's range.
ir::Instruction* wrap(ir::Instruction* number, ir::DType dtype);

// f64 to f32 so that rounding to fewer than 23 bits gives what one rounding from f64 would: what
// f32 can't hold gets an odd last bit (S. Boldo, G. Melquiond, "Emulation of FMA and correctly
// rounded sums: proved algorithms using rounding to odd", 2008).
ir::Instruction* round_to_odd(ir::Instruction* number);

// u8[d..] to u8[d.., parts] of so many bits, the low ones first; and back, of values below 2^bits.
ir::Instruction* split_bytes(ir::Instruction* bytes, int bits, int parts);
ir::Instruction* join_bytes(ir::Instruction* parts, int bits);

}  // namespace plimsoll::passes::narrow_types
