// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/planner/pack/pack_instance.h"

namespace plimsoll::planner {

// For problems too large for a search: packs what lives at the fullest time steps by search, at
// `goal`, and puts the rest into the holes around it. Tries cores of several sizes; lowers `best`
// where it can.
void pack_around_core(const PackInstance& instance, std::int64_t goal, PackSolution& best,
                      PackBudget& budget);

}  // namespace plimsoll::planner
