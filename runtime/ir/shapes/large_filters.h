// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ir/module.h"

namespace plimsoll::ir {

// Whether the filters of a forward convolution of f32 are large beside what they are applied to: a
// thousand numbers or more for each position of the result. Its time is then that of reading them:
// kernels multiply them as they lie, and passes lay them out for it. By shapes alone.
bool has_large_filters(const Instruction& convolution);

}  // namespace plimsoll::ir
