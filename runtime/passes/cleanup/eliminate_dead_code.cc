// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/cleanup/dead_code.h"
#include "runtime/passes/passes.h"

namespace plimsoll::passes {

Result<bool> eliminate_dead_code(ir::Module& module) {
  bool changed = module.remove_unreachable() > 0;
  for (bool again = true; again;) {
    again = false;
    // Callers first: what they stop using may be dead in their callees.
    const auto& computations = module.computations();
    for (auto it = computations.rbegin(); it != computations.rend(); ++it) {
      if ((*it)->remove_dead() > 0) again = true;
    }
    if (narrow_fusions(module)) again = true;
    if (narrow_loop_states(module)) again = true;
    if (module.remove_unreachable() > 0) again = true;
    changed = changed || again;
  }
  return changed;
}

}  // namespace plimsoll::passes
