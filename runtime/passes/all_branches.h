// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "runtime/passes/rewriter.h"

namespace plimsoll::passes {

// Element `i` of a tuple: what it was made of, or a new get-tuple-element.
ir::Instruction* element(Rewriter& rewriter, ir::Instruction& tuple, std::size_t i);

// Of a conditional the results of every branch, and the one that counts selected, array by array;
// an index out of range means the last. Null where a result is no array, or the index none of one
// element.
ir::Instruction* all_branches(Rewriter& rewriter, ir::Instruction& conditional);

}  // namespace plimsoll::passes
