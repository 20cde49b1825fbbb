// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/planner/planner.h"

namespace plimsoll::planner {

// `recompute,compress,swap,lossy` or some of them, `lossy:` and a name of codecs.def for another
// lossy codec than bfloat16, `all` (lossy included), `none`. `what` names the flag or
// variable in the INVALID_ARGUMENT of other words.
Result<Remedies> parse_remedies(std::string_view text, std::string_view what);
std::string to_string(const Remedies& remedies);

// The policy that the environment asks for; what it says nothing about is the default.
Result<PlanPolicy> policy_from_environment();

}  // namespace plimsoll::planner
