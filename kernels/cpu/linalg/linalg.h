// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/cpu/kernel_base.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// Whether a custom call's target is a function of linear algebra by the name that JAX gives it:
// "lapack_sgetrf_ffi" and its like, s, d, c, z for f32, f64, c64, c128, and
// "tridiagonal_solve_perturbed_ffi".
bool is_lapack_target(std::string_view target);
// Of all of them, with a star for the letter, in the order of the table.
std::vector<std::string> lapack_targets();

// Its kernel: LAPACK on one thread a matrix, a batch of them in parallel. INVALID_ARGUMENT for
// arrays that are not what the function takes. Precondition: is_lapack_target.
KernelResult make_lapack(const ir::Instruction& instruction);

}  // namespace plimsoll::kernels
