// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "runtime/base/status.h"
#include "runtime/device/communicator.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// The reducer of an all-reduce or a reduce-scatter for elements of `dtype`. Halves are
// reduced in f32 and rounded at the end, everything else as it is. UNIMPLEMENTED for computations
// that have no scalar form (kernels/cpu/scalar/scalar_program.h).
Result<std::shared_ptr<const device::Reduction>> make_reduction(const ir::Computation& computation,
                                                                ir::DType dtype);

}  // namespace plimsoll::kernels
