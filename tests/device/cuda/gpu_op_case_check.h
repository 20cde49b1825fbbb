// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>

#include "runtime/device/kernel_provider.h"
#include "tests/cases/op_cases.h"

namespace plimsoll::device::cuda {

struct GpuOpCaseTotals {
  int exact = 0, close = 0;  // cases compared bit for bit, and within their tolerance
  std::map<std::string, std::set<std::string>> refused;  // cases by operation without a kernel
};

// The case as a program, after all passes, by the kernels of `gpu` and of `cpu`: the same bits, or
// close where there are sums of products. Empty when that holds, or where a GPU has no kernel for
// some operation (`refused`), else what broke.
std::string check_gpu_op_case(const cases::OpCase& op_case, KernelProvider& gpu,
                              KernelProvider& cpu, GpuOpCaseTotals& totals);

}  // namespace plimsoll::device::cuda
