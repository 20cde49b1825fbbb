// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda_kernels.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/ir/codec/codec.h"

namespace plimsoll::backend {

Result<std::shared_ptr<device::KernelProvider>> CudaKernels::create(
    std::shared_ptr<device::Device> device) {
  auto gpu = std::dynamic_pointer_cast<device::cuda::CudaDevice>(device);
  if (gpu == nullptr) {
    return invalid_argument("device '" + std::string(device->name()) + "' is no GPU of NVIDIA's");
  }
  PLIMSOLL_ASSIGN_OR_RETURN(const jit::Options options, jit::options_from_environment());
  auto compiler = jit::GpuCompiler::create({.compute_capability = gpu->facts().compute_capability},
                                           options.disk_cache);
  if (!compiler.ok()) return compiler.status().with_context(device->name());
  return std::shared_ptr<device::KernelProvider>(
      new CudaKernels(std::move(gpu), std::move(*compiler)));
}

CudaKernels::CudaKernels(std::shared_ptr<device::cuda::CudaDevice> device,
                         std::unique_ptr<jit::GpuCompiler> compiler)
    : device_(device), base_(std::move(device)), compiler_(std::move(compiler)) {}

Result<std::shared_ptr<const device::Kernel>> CudaKernels::kernel(
    const ir::Instruction& instruction) {
  const auto start = std::chrono::steady_clock::now();
  auto code = compiler_->compile(instruction);
  if (!code.ok()) {
    return code.status().with_context(std::string(device_->name()) + ": no kernel for '" +
                                      std::string(ir::to_string(instruction.opcode())) +
                                      "' with result " + instruction.shape().to_string());
  }
  auto kernel = load(std::move(*code));
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const std::lock_guard lock(mutex_);
  statistics_.compile_seconds += elapsed.count();
  return kernel;
}

// Two threads that load the same kernel at once both do; the first one is kept.
Result<std::shared_ptr<const device::Kernel>> CudaKernels::load(
    std::shared_ptr<const jit::GpuKernel> code) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = loaded_.find(code.get()); found != loaded_.end()) {
      if (auto kernel = found->second.kernel.lock(); kernel != nullptr) {
        ++statistics_.cache_hits;
        return std::shared_ptr<const device::Kernel>(std::move(kernel));
      }
    }
  }
  device::cuda::KernelCode made;
  made.name = code->name;
  made.image = code->ptx;
  made.inputs = at(code->inputs);
  made.outputs = at(code->outputs);
  made.workspace_bytes = code->workspace_bytes;
  // Codecs are fused into what the JIT compiles alone.
  made.origin = code->is_library ? device::KernelOrigin::own : device::KernelOrigin::jit;
  for (const jit::GpuLaunch& launch : code->launches) {
    made.launches.push_back({launch.entry, launch.grid, launch.block, launch.shared_bytes,
                             launch.arguments, launch.unless_input, launch.unless_output});
  }
  PLIMSOLL_ASSIGN_OR_RETURN(std::shared_ptr<const CudaKernel> kernel,
                            CudaKernel::create(device_->context(), std::move(made)));
  const std::lock_guard lock(mutex_);
  std::erase_if(loaded_, [](const auto& entry) { return entry.second.kernel.expired(); });
  ++(code->from_disk ? statistics_.kernels_loaded : statistics_.kernels_compiled);
  const auto [entry, is_new] = loaded_.try_emplace(code.get(), Loaded{code, kernel});
  if (!is_new) kernel = entry->second.kernel.lock();
  statistics_.peak_code_bytes = std::max(statistics_.peak_code_bytes, device_->overhead_bytes());
  return std::shared_ptr<const device::Kernel>(std::move(kernel));
}

std::vector<Result<std::shared_ptr<const device::Kernel>>> CudaKernels::kernels(
    std::span<const ir::Instruction* const> instructions) {
  std::vector<Result<std::shared_ptr<const device::Kernel>>> made(
      instructions.size(), std::shared_ptr<const device::Kernel>());
  device::parallel_for(static_cast<std::int64_t>(instructions.size()), 1,
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t i = begin; i < end; ++i)
                           made[at(i)] = kernel(*instructions[at(i)]);
                       });
  return made;
}

Result<device::CodecKernels> CudaKernels::codec(const ir::Codec& codec, const ir::Shape& shape) {
  const auto start = std::chrono::steady_clock::now();
  auto code = compiler_->codec(codec, shape);
  if (!code.ok()) return code.status().with_context(device_->name());
  device::CodecKernels made;
  PLIMSOLL_ASSIGN_OR_RETURN(made.encode, load(std::move(code->encode)));
  PLIMSOLL_ASSIGN_OR_RETURN(made.decode, load(std::move(code->decode)));
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const std::lock_guard lock(mutex_);
  statistics_.compile_seconds += elapsed.count();
  return made;
}

Result<std::shared_ptr<const device::JointLaunch>> CudaKernels::join(
    std::span<const device::Kernel* const> /*parts*/) {
  return internal_error(std::string(device_->name()) + ": kernels do not share launches");
}

device::KernelStatistics CudaKernels::statistics() const {
  const std::lock_guard lock(mutex_);
  device::KernelStatistics now = statistics_;
  now.code_bytes = device_->overhead_bytes();
  return now;
}

}  // namespace plimsoll::backend
