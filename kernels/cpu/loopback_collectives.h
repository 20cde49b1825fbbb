// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/kernel_base.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// Collectives whose groups have one participant, their start and done halves, copy-start and
// copy-done, and async pairs around one operation that has a kernel: copies, with the dtype
// converted where the result's differs. UNIMPLEMENTED for larger groups.
KernelResult make_single_participant(const ir::Instruction& instruction);

// partition-id and replica-id of the only participant: zero.
KernelResult make_participant_id(const ir::Instruction& instruction);

}  // namespace plimsoll::kernels
