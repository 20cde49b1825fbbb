// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/ir/module.h"

namespace plimsoll::passes {

// What an integer of one element is in this participant, where it follows from the participant's
// number and constants alone.
std::optional<std::int64_t> number_in(const ir::Instruction& value, std::int64_t participant);

}  // namespace plimsoll::passes
