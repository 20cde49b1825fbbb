// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/expand/numbers.h"

#include <utility>

namespace plimsoll::passes {

ir::Instruction* add_number(ir::Computation& to, const ir::Shape& shape, double value) {
  ir::Literal literal(ir::Shape(shape.dtype(), {}));
  if (value != 0) literal.set(0, value);  // what is made is zero, of any type
  ir::Instruction* const scalar = to.add_constant(std::move(literal));
  return shape.rank() == 0 ? scalar : to.add(ir::Opcode::broadcast, shape, {scalar});
}

}  // namespace plimsoll::passes
