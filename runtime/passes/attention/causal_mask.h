// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/ir/module.h"

namespace plimsoll::passes {

// The offset when `predicate == seen_when` says that key j <= query i + offset, however iotas,
// constants, broadcasts, negations and comparisons say it. `labels` are of the predicate's dims
// (attention_scores.h); `query` and `key` are the labels that i and j run along. Empty when it says
// something else.
std::optional<std::int64_t> causal_offset(const ir::Instruction& predicate, bool seen_when,
                                          const std::vector<int>& labels, int query, int key);

}  // namespace plimsoll::passes
