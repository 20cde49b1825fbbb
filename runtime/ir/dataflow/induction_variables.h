// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/ir/module.h"

namespace plimsoll::ir {

// What `scalar`, an integer in the body of `loop`, is in each of the loop's rounds: one entry a
// round, found by running the counters it depends on and the condition, and nothing else of the
// loop. `fusions` leads to it from the body: the fusions around it, the outermost first. Nothing
// when it, or the number of rounds, does not follow from constants, or takes more counted work than
// a plan should spend on it.
std::optional<std::vector<std::int64_t>> scalar_by_round(
    const Instruction& loop, const Instruction& scalar,
    std::span<const Instruction* const> fusions);

// How many rounds `loop` does, found in the same way; nothing where that does not follow from
// constants, or where the condition does more than to say whether to go on.
std::optional<std::int64_t> round_count(const Instruction& loop);

}  // namespace plimsoll::ir
