// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/device/kernel_provider.h"
#include "tests/cases/op_cases.h"

namespace plimsoll::device::cuda {

struct GpuOpCaseTotals {
  int exact = 0, close = 0;  // cases compared bit for bit, and within their tolerance
};

// The case as a program, after all passes, by the kernels of `gpu` and of `cpu`: the same bits, or
// close where there are sums of products. Empty when that holds, else what broke.
std::string check_gpu_op_case(const cases::OpCase& op_case, KernelProvider& gpu,
                              KernelProvider& cpu, GpuOpCaseTotals& totals);

}  // namespace plimsoll::device::cuda
