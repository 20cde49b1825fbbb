// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"

namespace plimsoll::ir {

// The value of `key` in the frontend_attributes of an instruction, quotes taken off.
std::optional<std::string_view> find_frontend_attribute(const Attributes& attributes,
                                                        std::string_view key);

// What the program's author wants done with a value while nobody reads it: the frontend attribute
// `plimsoll.hint`.
enum class Hint : std::uint8_t { none, keep, recompute, compress, swap };
inline constexpr std::string_view kHintAttribute = "plimsoll.hint";

std::string_view to_string(Hint hint);
std::optional<Hint> parse_hint(std::string_view text);

// The instruction's hint; `none` without one, and for a text that is none (see check_hint).
Hint hint_of(const Instruction& instruction);
// INVALID_ARGUMENT when the instruction has a hint that does not exist.
Status check_hint(const Instruction& instruction);

// Replaces the hint among the frontend attributes; the others stay as they are.
void set_hint(Attributes& attributes, Hint hint);

// True when the value must be in memory of its own for its hint to mean anything: keep, compress
// and swap. A value to recompute may as well vanish in a fusion, which recomputes it wherever it is
// used.
bool must_materialize(const Instruction& instruction);

}  // namespace plimsoll::ir
