// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "kernels/cpu/kernel_base.h"
#include "runtime/ir/module.h"
#include "runtime/ir/participants.h"

namespace plimsoll::kernels {

// The kernel of an all-reduce, all-gather, reduce-scatter, all-to-all, collective-broadcast or
// collective-permute, or of the start half of one, of operands with these leaves, whose result is
// `result`: it writes the leaves of that alone.
KernelResult make_many_participants(const ir::Instruction& instruction,
                                    const std::vector<const ir::Shape*>& in,
                                    const ir::Shape& result);

// UNIMPLEMENTED: the instruction, and what of it has no kernel.
Status unsupported(const ir::Instruction& instruction, const std::string& what);

}  // namespace plimsoll::kernels
