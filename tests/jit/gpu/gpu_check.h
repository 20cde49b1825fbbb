// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/device/kernel.h"
#include "runtime/ir/literal.h"
#include "runtime/ir/module.h"

namespace plimsoll::jit::testing {

struct GpuCheck {
  std::int64_t kernels = 0, launches = 0, in_place = 0;
  std::int64_t newer = 0;  // of them checked once more for a GPU that has more instructions
};

// The array leaves of what `kernel` computes of `operands`, launched on the CPU.
Result<std::vector<ir::Literal>> run_on_cpu(const device::Kernel& kernel,
                                            const ir::Instruction& instruction,
                                            const std::vector<ir::Literal>& operands);

// Runs the emulated GPU kernel of `instruction` on `operands` in several orders of the threads, for
// an old GPU and, where that is other code, for a newer one, and
// with a result in the buffer of an operand where ir::may_reuse_operand allows it. Returns what
// broke: an error, bytes written where none may be, or what `compare` says of the results.
std::string check_on_gpu(
    const ir::Instruction& instruction, const std::vector<ir::Literal>& operands, GpuCheck& totals,
    const std::function<std::string(const std::vector<ir::Literal>& results)>& compare);

// Compares the emulated GPU kernel of `instruction` with the CPU's on `operands`: the same bits,
// all NaNs being equal, in several orders of the threads, and with a result in the buffer of an
// operand where ir::may_reuse_operand allows it. Returns what broke, or an empty string.
// Precondition: the compiler takes the instruction.
std::string check_on_gpu(const ir::Instruction& instruction,
                         const std::vector<ir::Literal>& operands, GpuCheck& totals);

// The same for the root of the entry of `module`, whose operands are parameters.
std::string check_root_on_gpu(const ir::Module& module, const std::vector<ir::Literal>& arguments,
                              GpuCheck& totals);

}  // namespace plimsoll::jit::testing
