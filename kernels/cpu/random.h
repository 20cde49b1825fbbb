// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/kernel_base.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// rng-bit-generator: Philox whatever the algorithm's name (runtime/base/philox.h defines every
// bit).
KernelResult make_rng_bit_generator(const ir::Instruction& instruction);

// rng and rng-get-and-update-state: the n-th draw of the process uses Philox with key 0 and n in
// the counter's high half. So a process that runs the same programs in the same order gets the same
// numbers; concurrent runs share the draws in the order they come.
KernelResult make_rng(const ir::Instruction& instruction);
KernelResult make_rng_get_and_update_state(const ir::Instruction& instruction);

}  // namespace plimsoll::kernels
