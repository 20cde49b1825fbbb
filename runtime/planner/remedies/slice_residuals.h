// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/ir/dataflow/scan_residuals.h"
#include "runtime/planner/problem/problem.h"

namespace plimsoll::planner {

// A value that one loop makes slice by slice and others read slice by slice, and nothing else
// touches: it may lie on another tier and never in the arena as a whole.
struct ScanResidual {
  struct Use {
    OpId op;
    int leaf = 0;
    ir::ResidualAccess access;
  };
  ValueId value;
  Home tier = Home::host;
  std::vector<Use> uses;  // the loop that writes it first
};

// The problem's residuals that are worth it, those with most bytes first, each on the tier that has
// room for it beside those before; empty when the options allow no swaps.
std::vector<ScanResidual> find_residuals(const Problem& problem, const PlanOptions& options);

// The problem in which these residuals lie on their tiers: their values cost no arena bytes, their
// loops have windows as a part of their workspaces, and transfers in their seconds. What made only
// a residual's content before its loop is left out, its time still counted. Values keep their
// numbers, ops do not.
Problem slice_residuals(const Problem& problem, std::span<const ScanResidual> residuals,
                        const PlanOptions& options);

// `machine` with what `residuals` leave of the tiers.
Machine without_residuals(std::span<const ScanResidual> residuals, Machine machine);

// The problem without the bytes of its residuals and without the time of any transfer: no plan of
// the problem, with or without sliced residuals, is better than the best of this one.
Problem relax_residuals(const Problem& problem, std::span<const ScanResidual> residuals);

}  // namespace plimsoll::planner
