// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cpu_kernels.h"

#include <string>
#include <utility>

#include "kernels/codec.h"
#include "kernels/kernels.h"
#include "runtime/device/cpu/chained_launch.h"
#include "runtime/device/cpu/joint_launch.h"
#include "runtime/device/cpu/launch_sequence.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::backend {

Result<std::shared_ptr<device::KernelProvider>> CpuKernels::create(
    std::shared_ptr<device::Device> device) {
  PLIMSOLL_ASSIGN_OR_RETURN(const jit::Options options, jit::options_from_environment());
  PLIMSOLL_ASSIGN_OR_RETURN(auto compiler, jit::Compiler::create(options));
  return std::shared_ptr<device::KernelProvider>(
      std::make_shared<CpuKernels>(std::move(device), std::move(compiler)));
}

CpuKernels::CpuKernels(std::shared_ptr<device::Device> device,
                       std::unique_ptr<jit::Compiler> compiler)
    : device_(std::move(device)), compiler_(std::move(compiler)) {}

Result<std::shared_ptr<const device::Kernel>> CpuKernels::kernel(
    const ir::Instruction& instruction) {
  // Asking first whether it is supported would take longer than finding a kernel that is there.
  auto compiled = compiler_->compile(instruction);
  if (compiled.ok() || compiled.status().code() != StatusCode::unimplemented) return compiled;
  if (kernels::supports(instruction)) return kernels::make_kernel(instruction);
  return compiled.status().with_context("no kernel for '" +
                                        std::string(ir::to_string(instruction.opcode())) +
                                        "' with result " + instruction.shape().to_string());
}

std::vector<Result<std::shared_ptr<const device::Kernel>>> CpuKernels::kernels(
    std::span<const ir::Instruction* const> instructions) {
  std::vector<Result<std::shared_ptr<const device::Kernel>>> made(
      instructions.size(), std::shared_ptr<const device::Kernel>());
  device::parallel_for(static_cast<std::int64_t>(instructions.size()), 1,
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t i = begin; i < end; ++i) {
                           const auto at = static_cast<std::size_t>(i);
                           made[at] = kernel(*instructions[at]);
                         }
                       });
  return made;
}

Result<device::CodecKernels> CpuKernels::codec(const ir::Codec& codec, const ir::Shape& shape) {
  return kernels::make_codec(codec, shape);
}

Result<std::shared_ptr<const device::JointLaunch>> CpuKernels::join(
    std::span<const device::Kernel* const> parts) {
  std::vector<const device::PhasedKernel*> phased;
  for (const device::Kernel* part : parts) {
    phased.push_back(static_cast<const device::PhasedKernel*>(part));  // as it may join
  }
  return std::shared_ptr<const device::JointLaunch>(
      std::make_shared<device::CpuJointLaunch>(phased));
}

std::shared_ptr<const device::JointLaunch> CpuKernels::chain(const device::Kernel& first,
                                                             std::size_t first_inputs,
                                                             const device::Kernel& second,
                                                             std::size_t input) {
  // Those of the JIT can't be asked what they are, which their origin says; others are none of its.
  if (first.origin() == device::KernelOrigin::jit || second.origin() != device::KernelOrigin::jit) {
    return nullptr;
  }
  const auto* const pieces = dynamic_cast<const device::ResultPieces*>(&first);
  if (pieces == nullptr) return nullptr;
  return device::CpuChainedLaunch::create(*pieces, first_inputs,
                                          static_cast<const device::PhasedKernel&>(second), input);
}

Result<std::shared_ptr<const device::LaunchSequence>> CpuKernels::sequence(
    const device::SequenceText& text, bool may_compile) {
  // A sequence runs when it is launched, on the launching thread.
  if (!device_->is_host_memory()) return std::shared_ptr<const device::LaunchSequence>();
  if (may_compile) {
    PLIMSOLL_ASSIGN_OR_RETURN(auto compiled, compiler_->compile(text));
    if (compiled != nullptr) return compiled;
  }
  return std::shared_ptr<const device::LaunchSequence>(
      std::make_shared<device::CpuLaunchSequence>(text));
}

}  // namespace plimsoll::backend
