// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "jit/graph/row_plan.h"

// How many rows a row fusion computes together, and how many sums run side by side.
namespace plimsoll::jit {

// All that is read and written.
std::int64_t bytes_moved_by_rows(const KernelGraph& graph);

// A power of two. Precondition: it is decided what is kept from sweep to sweep (plan_row_sweeps).
std::int64_t rows_together(const RowPlan& plan);

// Accumulators of a reduce of sweep `s`, where the reduction has `slots`.
std::int64_t slots_in_sweep(const RowPlan& plan, int s, std::int64_t slots);

}  // namespace plimsoll::jit
