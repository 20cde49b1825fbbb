// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "runtime/ir/literal.h"
#include "runtime/ir/module.h"

namespace plimsoll::testing {

// What every participant of `module` computes of its arguments, by the interpreter. It gets
// operations that are others in disguise, complex and narrow dtypes as their expansions; functions
// of libraries (Fourier transforms of one dim, Cholesky factors, triangular solutions) are computed
// by their definitions in f64, where they stand in the entry or in what it calls and there is one
// participant.
Result<std::vector<ir::Literal>> reference_results(
    const ir::Module& module, std::span<const std::vector<ir::Literal>> arguments);

}  // namespace plimsoll::testing
