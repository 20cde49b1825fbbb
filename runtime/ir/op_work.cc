// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/op_work.h"

namespace plimsoll::ir {

double op_work(Opcode opcode) {
  switch (opcode) {
#define PLIMSOLL_OP_WORK(name, additions) \
  case Opcode::name:                      \
    return additions;
#include "runtime/ir/op_work.def"
#undef PLIMSOLL_OP_WORK
    default:
      return is_elementwise(opcode) ? 1 : 0;
  }
}

}  // namespace plimsoll::ir
