// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/ir/literal.h"
#include "runtime/ir/module.h"

namespace plimsoll::jit::testing {

struct GpuCheck {
  std::int64_t kernels = 0, launches = 0, in_place = 0;
};

// Compares the emulated GPU kernel of `instruction` with the CPU's on `operands`: the same bits, all
// NaNs being equal, in several orders of the threads, and with a result in the buffer of an operand
// where ir::may_reuse_operand allows it. Returns what broke, or an empty string. Precondition: the
// compiler takes the instruction.
std::string check_on_gpu(const ir::Instruction& instruction,
                         const std::vector<ir::Literal>& operands, GpuCheck& totals);

// The same for the root of the entry of `module`, whose operands are parameters.
std::string check_root_on_gpu(const ir::Module& module, const std::vector<ir::Literal>& arguments,
                              GpuCheck& totals);

}  // namespace plimsoll::jit::testing
