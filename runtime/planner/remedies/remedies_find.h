// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/planner/planner.h"
#include "runtime/planner/remedies/remedies.h"

namespace plimsoll::planner {

// Whether the op can read a value as a form stores it.
bool reads_fused(const Op& op, std::span<const ir::Instruction* const> fused_readers);

// What the value takes at least where the op reads or makes it, in one of these forms (all of the
// problem's).
std::int64_t least_bytes_at(const Problem& problem, std::span<const Form> forms, OpId op,
                            ValueId value);

// Everything that may be done with the problem's values under these options, `keep` hints, the
// smallest size, tiers and remedies respected; by value. The graph's codecs must be there.
std::vector<Form> find_forms(const Problem& problem, const PlanOptions& options);

// The choice that uses `form` in the interval before the read `ready`, transfers waited for where
// they are started, returning there alone.
Choice choose_form(const Problem& problem, const Form& form, OpId ready);

}  // namespace plimsoll::planner
