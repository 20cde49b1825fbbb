// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/status.h"
#include "runtime/ir/literal.h"
#include "runtime/ir/text/cursor.h"

namespace plimsoll::ir {

// Reads the value of `constant(...)` for `shape`: nested braces, `{...}` (elided), or one number
// for every element of an array. A value never needs more memory than its text can account for, but
// for such splats, which draw on `splat_bytes`.
Result<Literal> read_literal(Cursor& cursor, const Shape& shape, std::int64_t& splat_bytes);

// What read_literal reads back to the same bits; numbers are the shortest that do. Arrays of more
// than `most_elements` print as `{...}`.
std::string literal_text(const Literal& literal, std::int64_t most_elements);

}  // namespace plimsoll::ir
