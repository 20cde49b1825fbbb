// SPDX-License-Identifier: Apache-2.0
#include "tests/device/cuda/gpu_op_case_check.h"

#include <algorithm>

#include "runtime/ir/text/text.h"
#include "tests/cases/compare.h"
#include "tests/executor/limit_check.h"

namespace plimsoll::device::cuda {
bool has_opcode(const ir::Module& module, std::initializer_list<ir::Opcode> opcodes) {
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      if (std::find(opcodes.begin(), opcodes.end(), instruction->opcode()) != opcodes.end()) {
        return true;
      }
    }
  }
  return false;
}

std::string check_gpu_op_case(const cases::OpCase& op_case, KernelProvider& gpu,
                              KernelProvider& cpu, GpuOpCaseTotals& totals) {
  const auto module = ir::parse_module(op_case.hlo, op_case.name);
  if (!module.ok()) return module.status().to_string();
  const auto arguments = cases::random_arguments(**module, 7, op_case.ranges);
  std::string error;
  const ir::Literal expected = testing::run_unlimited(**module, arguments, cpu, true, error);
  if (!error.empty()) return "on the CPU: " + error;
  const ir::Literal result = testing::run_unlimited(**module, arguments, gpu, true, error);
  if (!error.empty()) return error;
  if (!has_opcode(**module, {ir::Opcode::dot, ir::Opcode::convolution})) {
    ++totals.exact;
    return cases::compare_bits(expected, result);
  }
  ++totals.close;
  return cases::compare_close(expected, result, std::max(op_case.tolerance, 1e-6), 1);
}

}  // namespace plimsoll::device::cuda
