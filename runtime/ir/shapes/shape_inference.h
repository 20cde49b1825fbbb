// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"

namespace plimsoll::ir {

// The result shape of `opcode` on operands of these shapes. For opcodes whose rule is `given`,
// checks `given` (which must be non-null) and returns it; for the others `given` may be null, and
// when it is not, a mismatch is an error (mixed precision results are accepted where HLO accepts
// them). INVALID_ARGUMENT messages name the opcode and the shapes: `add: f32[2] and f32[3] differ
// in dims`. Reads nothing of computations but their root and parameter shapes.
Result<Shape> infer_shape(Opcode opcode, std::span<const Shape* const> operands,
                          const Attributes& attributes, std::span<Computation* const> called,
                          const Shape* given);

// Whether rng-bit-generator knows how to step a state of this shape: two or three words of u64.
bool is_random_state(const Shape& shape);

}  // namespace plimsoll::ir
