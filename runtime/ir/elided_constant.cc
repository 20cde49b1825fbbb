// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/elided_constant.h"

namespace plimsoll::ir {

Status elided_constant(const Instruction& constant) {
  return failed_precondition(
      "constant '" + constant.name() + "' of " + constant.shape().to_string() +
      " has no values to run with: the program was written with {...} in their place (print large "
      "constants: jax.jit(f).lower(*args).compiler_ir('hlo').as_hlo_text(True), or "
      "--xla_dump_large_constants for XLA's dumps)");
}

}  // namespace plimsoll::ir
