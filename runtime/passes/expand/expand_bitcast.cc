// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/shapes/builder.h"
#include "runtime/passes/expand/expansions.h"

namespace plimsoll::passes {

using ir::DType;
using ir::Instruction;
using ir::Shape;

Result<Instruction*> expand_bitcast(Instruction& bitcast) {
  const Shape& from = bitcast.operand(0)->shape();
  const Shape& to = bitcast.shape();
  const auto takes = [](const Shape& shape) {
    return shape.is_scalar() && shape.dtype() != DType::pred && !ir::is_complex(shape.dtype());
  };
  if (!takes(from) || !takes(to) || from.dtype() == to.dtype()) return nullptr;
  return ir::build(*bitcast.parent(), ir::Opcode::bitcast_convert, {bitcast.operand(0)}, {}, {},
                   &to);
}

}  // namespace plimsoll::passes
