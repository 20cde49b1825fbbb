// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/kernel_base.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// The halves of what one participant sends another: send, send-done, recv and recv-done. A recv
// whose participant nobody sends to gives zeros. UNIMPLEMENTED for transfers to and from the host.
KernelResult make_transfer(const ir::Instruction& instruction);

}  // namespace plimsoll::kernels
