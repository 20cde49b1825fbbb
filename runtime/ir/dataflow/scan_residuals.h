// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/ir/module.h"

namespace plimsoll::ir {

// How a loop uses a leaf of its state as a residual of slices stacked along its first dimension:
// round n touches slice `first + n * step` and no other. A loop that writes its residual writes
// every slice once and reads none, so that what the residual held before does not matter; one that
// reads it leaves it as it is.
struct ResidualAccess {
  bool writes = false;
  std::int64_t slices = 0, slice_bytes = 0;
  std::int64_t rounds = 0, first = 0, step = 0;
  // What touches it: of the body, a dynamic-update-slice or a fusion that ends in one; or
  // dynamic-slices and fusions that read it through one.
  std::vector<const Instruction*> by;
  bool operator==(const ResidualAccess&) const = default;
};

// Nothing when leaf `leaf` of the state of `loop`, a while, is no such residual as far as is found
// out.
std::optional<ResidualAccess> find_residual_access(const Instruction& loop, int leaf);

}  // namespace plimsoll::ir
