// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/kernel_base.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// True when the instruction's target is registered (kernels.h).
bool is_custom_call_registered(const ir::Instruction& instruction);

// The registered function, with the instruction's backend_config. NOT_FOUND when there is none.
KernelResult make_custom_call(const ir::Instruction& instruction);

}  // namespace plimsoll::kernels
