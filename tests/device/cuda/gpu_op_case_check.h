// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>

#include "runtime/device/kernel_provider.h"
#include "runtime/ir/module.h"
#include "tests/cases/op_cases.h"

namespace plimsoll::device::cuda {

struct GpuOpCaseTotals {
  int exact = 0, close = 0;  // cases compared bit for bit, and within their tolerance
};

// Whether the program has an instruction of one of these.
bool has_opcode(const ir::Module& module, std::initializer_list<ir::Opcode> opcodes);

// The case as a program, after all passes, by the kernels of `gpu` and of `cpu`: the same bits, or
// close where there are sums of products. Empty when that holds, else what broke.
std::string check_gpu_op_case(const cases::OpCase& op_case, KernelProvider& gpu,
                              KernelProvider& cpu, GpuOpCaseTotals& totals);

}  // namespace plimsoll::device::cuda
