// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "runtime/ir/module.h"

namespace plimsoll::planner {

// The work of a Fourier transform or of a call of linear algebra (LAPACK's, by XLA's names), in
// additions of an elementwise kernel; nothing for anything else. Operations are counted as G. Golub
// and C. Van Loan do ("Matrix Computations", 2013), those of a transform of n as 5 n log2 n; what
// one of them takes beside an addition was measured on two cores.
std::optional<double> library_work(const ir::Instruction& instruction);

}  // namespace plimsoll::planner
