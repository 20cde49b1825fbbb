// SPDX-License-Identifier: Apache-2.0
#include "tests/device/cuda/dressed_kernels.h"

#include <cstdlib>
#include <numeric>
#include <string>
#include <utility>

#include "runtime/backend/cpu_kernels.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cuda/cuda_kernel.h"
#include "runtime/ir/codec/codec.h"
#include "runtime/ir/module.h"

namespace plimsoll::device::cuda {
namespace {

// Of all providers of a process, as texts are keys.
std::atomic<int> dressed_texts{0};

std::string module_text(const std::string& entry, std::size_t pointers) {
  std::string text =
      ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry " + entry + "(";
  for (std::size_t i = 0; i < pointers; ++i) {
    text += (i == 0 ? "" : ", ") + std::string(".param .u64 p") + std::to_string(i);
  }
  return text + ") { ret; }\n";
}

}  // namespace

Result<std::shared_ptr<KernelProvider>> DressedKernels::create(std::shared_ptr<CudaDevice> device,
                                                               RecordingDriver& driver) {
  PLIMSOLL_ASSIGN_OR_RETURN(auto cpu, backend::CpuKernels::create(cpu_device()));
  PLIMSOLL_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, cpu_device()->create_stream());
  return std::shared_ptr<KernelProvider>(
      new DressedKernels(std::move(device), driver, std::move(cpu), std::move(stream)));
}

// The entry takes all pointers there are: inputs, outputs, the workspace, the word to report by.
Result<std::shared_ptr<const Kernel>> DressedKernels::dressed(std::shared_ptr<const Kernel> kernel,
                                                              std::size_t inputs,
                                                              std::size_t outputs) {
  const std::lock_guard lock(mutex_);
  // The CPU's kernel stays, with the module that the driver knows: its address is no other's.
  if (const auto known = made_.find(kernel.get()); known != made_.end()) {
    if (auto made = known->second.lock(); made != nullptr) return made;
  }
  const std::string entry = "dressed_" + std::to_string(++dressed_texts);
  KernelCode code;
  code.name = kernel->name();
  code.image = module_text(entry, inputs + outputs + 2);
  code.inputs = inputs;
  code.outputs = outputs;
  code.workspace_bytes = kernel->workspace_bytes();
  code.origin = kernel->origin();
  KernelCode::Launch launch{.entry = entry};
  launch.pointers.resize(inputs + outputs + 2);
  std::iota(launch.pointers.begin(), launch.pointers.end(), 0);
  code.launches.push_back(std::move(launch));
  driver_.register_module(
      code.image, {{entry, [kernel, inputs, outputs, stream = stream_](
                               const LaunchShape&, std::span<void* const> pointers) {
                      const std::vector<const void*> in(
                          pointers.begin(), pointers.begin() + static_cast<std::ptrdiff_t>(inputs));
                      const Status status = kernel->launch(
                          *stream,
                          {in, pointers.subspan(inputs, outputs), pointers[inputs + outputs]});
                      if (status.ok()) return;
                      if (status.code() != StatusCode::data_loss) std::abort();
                      *static_cast<std::uint32_t*>(pointers.back()) = 1;
                    }}});
  PLIMSOLL_ASSIGN_OR_RETURN(auto made, CudaKernel::create(device_->context(), std::move(code)));
  made_[kernel.get()] = made;
  return std::shared_ptr<const Kernel>(std::move(made));
}

Result<std::shared_ptr<const Kernel>> DressedKernels::kernel(const ir::Instruction& instruction) {
  PLIMSOLL_ASSIGN_OR_RETURN(auto kernel, cpu_->kernel(instruction));
  int inputs = 0;
  for (const ir::Instruction* operand : instruction.operands()) {
    inputs += ir::leaf_count(operand->shape());
  }
  return dressed(std::move(kernel), static_cast<std::size_t>(inputs),
                 static_cast<std::size_t>(ir::leaf_count(instruction.shape())));
}

std::vector<Result<std::shared_ptr<const Kernel>>> DressedKernels::kernels(
    std::span<const ir::Instruction* const> instructions) {
  (void)cpu_->kernels(instructions);  // compiles them on all threads
  std::vector<Result<std::shared_ptr<const Kernel>>> made;
  for (const ir::Instruction* instruction : instructions) made.push_back(kernel(*instruction));
  return made;
}

Result<CodecKernels> DressedKernels::codec(const ir::Codec& codec, const ir::Shape& shape) {
  PLIMSOLL_ASSIGN_OR_RETURN(const CodecKernels plain, cpu_->codec(codec, shape));
  CodecKernels made;
  PLIMSOLL_ASSIGN_OR_RETURN(made.encode, dressed(plain.encode, 1, 1));
  PLIMSOLL_ASSIGN_OR_RETURN(made.decode, dressed(plain.decode, 1, 1));
  return made;
}

Result<std::shared_ptr<const JointLaunch>> DressedKernels::join(std::span<const Kernel* const>) {
  return internal_error("GPU kernels do not join");
}

}  // namespace plimsoll::device::cuda
