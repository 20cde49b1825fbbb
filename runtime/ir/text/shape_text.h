// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/status.h"
#include "runtime/ir/shape.h"
#include "runtime/ir/text/cursor.h"

namespace plimsoll::ir {

// True when a shape stands next: `(`, or a word directly followed by `[`.
bool looks_like_shape(Cursor& cursor);
// `f32[2,3]{1,0:T(8,128)S(5)}`, `token[]`, `opaque[]`, `(f32[], (s32[2], pred[]))`.
Result<Shape> read_shape(Cursor& cursor);

// Nodes of the shape's tree; an array is one.
std::int64_t node_count(const Shape& shape);
// True when every array, and all of them together, are of a size the IR can count with.
bool has_countable_size(const Shape& shape);

}  // namespace plimsoll::ir
