// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ir/module.h"

namespace plimsoll::passes::narrow_types {

// An instruction at the end of the first operand's computation.
ir::Instruction* made(ir::Opcode opcode, ir::Shape shape, std::vector<ir::Instruction*> operands,
                      ir::Attributes attributes = {});
ir::Instruction* reshaped(ir::Instruction* value, const ir::Dims& dims);

// Values as codes.h has them in u8, without what a sign leaves in their upper bits; and back.
ir::Instruction* low_bits(ir::Instruction* code, ir::DType dtype);
ir::Instruction* code_of(ir::Instruction* bits, ir::DType dtype);

// What a parameter or result of the program is: a byte for each code of a byte, else bytes in a row
// that hold the packed array.
ir::Shape stored(const ir::Shape& shape);
// From that to values as codes.h has them; and back. `shape` is the program's, narrow.
ir::Instruction* unpack(ir::Instruction* bytes, const ir::Shape& shape);
ir::Instruction* pack(ir::Instruction* code, const ir::Shape& shape);

}  // namespace plimsoll::passes::narrow_types
