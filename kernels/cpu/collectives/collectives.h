// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/kernel_base.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// Collectives, their start and done halves, copy-start and copy-done, and async pairs around one
// operation that has a kernel. A start half does all the work, a done half is a copy of its result.
// Kernels of groups with more than one participant talk through their stream's communicator; a
// launch without one is FAILED_PRECONDITION. INVALID_ARGUMENT for groups that the module's replicas
// and partitions do not have.
KernelResult make_collective(const ir::Instruction& instruction);

// partition-id and replica-id: of the stream's communicator; zero without one.
KernelResult make_participant_id(const ir::Instruction& instruction);

}  // namespace plimsoll::kernels
