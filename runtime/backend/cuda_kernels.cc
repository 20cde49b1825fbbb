// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda_kernels.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "kernels/cuda/convolution.h"
#include "kernels/cuda/product.h"
#include "runtime/backend/cpu_kernels.h"
#include "runtime/backend/device_copies.h"
#include "runtime/backend/host_kernel.h"
#include "runtime/base/index.h"
#include "runtime/base/log.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/ir/codec/codec.h"
#include "runtime/ir/participants.h"

namespace plimsoll::backend {
namespace {

// What users know an operation by.
std::string operation_name(const ir::Instruction& instruction) {
  std::string name(ir::to_string(instruction.opcode()));
  if (instruction.opcode() == ir::Opcode::custom_call) {
    name += " " + instruction.attributes().custom_call_target;
  }
  return name;
}

}  // namespace

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
  PLIMSOLL_ASSIGN_OR_RETURN(
      auto products, kernels::cuda::ProductLibrary::create(
                         gpu->context(), gpu->libraries().products, gpu->libraries().allows_tf32));
  gpu->use_small_copies();
  return std::shared_ptr<device::KernelProvider>(
      new CudaKernels(std::move(gpu), std::move(*compiler), std::move(products)));
}

CudaKernels::CudaKernels(std::shared_ptr<device::cuda::CudaDevice> device,
                         std::unique_ptr<jit::GpuCompiler> compiler,
                         std::shared_ptr<const kernels::cuda::ProductLibrary> products)
    : device_(device),
      base_(std::move(device)),
      compiler_(std::move(compiler)),
      products_(std::move(products)) {}

template <typename Shape>
std::shared_ptr<const device::Kernel> CudaKernels::made(
    const std::map<Shape, std::weak_ptr<const device::Kernel>>& kernels, const Shape& shape) {
  const std::lock_guard lock(mutex_);
  const auto found = kernels.find(shape);
  auto kernel = found == kernels.end() ? nullptr : found->second.lock();
  statistics_.cache_hits += kernel == nullptr ? 0 : 1;
  return kernel;
}

template <typename Shape>
void CudaKernels::keep(std::map<Shape, std::weak_ptr<const device::Kernel>>& kernels,
                       const Shape& shape, const std::shared_ptr<const device::Kernel>& kernel) {
  const std::lock_guard lock(mutex_);
  std::erase_if(kernels, [](const auto& entry) { return entry.second.expired(); });
  if (kernel != nullptr) kernels.insert_or_assign(shape, kernel);
}

Result<std::shared_ptr<const device::Kernel>> CudaKernels::by_library(
    const ir::Instruction& instruction) {
  auto made = std::shared_ptr<const device::Kernel>();
  const bool is_dot = instruction.opcode() == ir::Opcode::dot && products_ != nullptr;
  const bool is_convolution = instruction.opcode() == ir::Opcode::convolution &&
                              device_->libraries().convolutions != nullptr;
  if (!is_dot && !is_convolution) return made;
  auto kernel = is_dot ? product(instruction) : convolution(instruction);
  if (kernel.ok()) return kernel;
  return kernel.status().with_context("'" + std::string(ir::to_string(instruction.opcode())) +
                                      "' with result " + instruction.shape().to_string());
}

// As for code, of two threads that want the same kernel at once both make it; it is the same.
Result<std::shared_ptr<const device::Kernel>> CudaKernels::product(const ir::Instruction& dot) {
  const auto shape = kernels::cuda::read_product(dot);
  if (!shape) return std::shared_ptr<const device::Kernel>();
  if (auto kernel = made(made_products_, *shape); kernel != nullptr) return kernel;
  PLIMSOLL_ASSIGN_OR_RETURN(auto kernel, kernels::cuda::make_product(products_, *shape));
  keep(made_products_, *shape, kernel);
  return kernel;
}

Result<std::shared_ptr<const kernels::cuda::ConvolutionLibrary>> CudaKernels::convolutions() {
  const std::lock_guard lock(opening_);
  if (convolutions_ == nullptr) {
    const device::cuda::Libraries& libraries = device_->libraries();
    PLIMSOLL_ASSIGN_OR_RETURN(
        convolutions_, kernels::cuda::ConvolutionLibrary::create(
                           device_->context(), libraries.convolutions, libraries.allows_tf32));
  }
  return convolutions_;
}

Result<std::shared_ptr<const device::Kernel>> CudaKernels::convolution(
    const ir::Instruction& instruction) {
  const auto shape = kernels::cuda::read_convolution(instruction);
  if (!shape || !is_faster_by_library(*shape, device_->libraries().allows_tf32)) {
    return std::shared_ptr<const device::Kernel>();
  }
  if (auto kernel = made(made_convolutions_, *shape); kernel != nullptr) return kernel;
  PLIMSOLL_ASSIGN_OR_RETURN(const auto library, convolutions());
  std::shared_ptr<const device::Kernel> reorder;
  if (!shape->filter_dims.empty()) {
    PLIMSOLL_ASSIGN_OR_RETURN(const auto module,
                              kernels::cuda::reordered_filters(instruction, *shape));
    PLIMSOLL_ASSIGN_OR_RETURN(reorder, kernel(*module->entry()->root()));
  }
  PLIMSOLL_ASSIGN_OR_RETURN(auto made,
                            kernels::cuda::make_convolution(library, *shape, std::move(reorder)));
  keep(made_convolutions_, *shape, made);
  return made;
}

Result<std::shared_ptr<const device::Kernel>> CudaKernels::kernel(
    const ir::Instruction& instruction) {
  PLIMSOLL_ASSIGN_OR_RETURN(auto computed, by_library(instruction));
  if (computed != nullptr) return computed;
  const auto start = std::chrono::steady_clock::now();
  auto kernel = compiled(instruction);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  {
    const std::lock_guard lock(mutex_);
    statistics_.compile_seconds += elapsed.count();
  }
  if (kernel.ok() || kernel.status().code() != StatusCode::unimplemented) return kernel;
  PLIMSOLL_ASSIGN_OR_RETURN(auto copies, make_device_copies(instruction, [this](const auto& of) {
                              return this->kernel(of);
                            }));
  if (copies != nullptr) return copies;
  return on_host(instruction, kernel.status());
}

Result<std::shared_ptr<const device::Kernel>> CudaKernels::compiled(
    const ir::Instruction& instruction) {
  auto code = compiler_->compile(instruction);
  if (!code.ok()) return code.status();
  return load(std::move(*code));
}

Result<std::shared_ptr<device::KernelProvider>> CudaKernels::cpu() {
  const std::lock_guard lock(mutex_);
  if (cpu_ == nullptr) {
    PLIMSOLL_ASSIGN_OR_RETURN(cpu_, CpuKernels::create(device::cpu_device()));
  }
  return cpu_;
}

void CudaKernels::Said::say(const std::string& device, const std::string& operation,
                            const Status& why) {
  {
    const std::lock_guard lock(mutex);
    if (!operations.insert(operation).second) return;
  }
  log_line(LogLevel::warning,
           device + ": '" + operation + "' runs on the host, slower (" + why.message() + ")");
}

Result<std::shared_ptr<const device::Kernel>> CudaKernels::on_host(
    const ir::Instruction& instruction, const Status& why) {
  PLIMSOLL_ASSIGN_OR_RETURN(const auto cpu, this->cpu());
  auto kernel = cpu->kernel(instruction);
  if (kernel.status().code() == StatusCode::unimplemented) {
    return unimplemented(std::string(device_->name()) + ": no kernel for '" +
                         std::string(ir::to_string(instruction.opcode())) + "' with result " +
                         instruction.shape().to_string() + ": " + why.message() +
                         "; on the host: " + kernel.status().message());
  }
  if (!kernel.ok()) return kernel;
  auto made = HostKernel::create(instruction, std::move(*kernel));
  if (!made.ok()) return made.status().with_context(device_->name());
  const std::string name(device_->name()), operation = operation_name(instruction);
  if (ir::is_meeting(instruction) && ir::topology_of(instruction).participants() > 1) {
    // Participants may meet on the device.
    (*made)->say_when_staged([=, said = said_] { said->say(name, operation, why); });
  } else {
    said_->say(name, operation, why);
  }
  return std::shared_ptr<const device::Kernel>(std::move(*made));
}

Result<device::CodecKernels> CudaKernels::codec_on_host(const ir::Codec& codec,
                                                        const ir::Shape& shape, const Status& why) {
  PLIMSOLL_ASSIGN_OR_RETURN(const auto cpu, this->cpu());
  PLIMSOLL_ASSIGN_OR_RETURN(const device::CodecKernels made, cpu->codec(codec, shape));
  const std::vector<std::int64_t> plain{shape.byte_size()},
      encoded{ir::encoded_bytes(codec, shape)};
  said_->say(std::string(device_->name()), "codec " + std::string(ir::to_string(codec.kind)), why);
  return device::CodecKernels{std::make_shared<HostKernel>(made.encode, plain, encoded),
                              std::make_shared<HostKernel>(made.decode, encoded, plain)};
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
  for (const auto& [text, kernel] :
       {std::pair{code->encode, &made.encode}, std::pair{code->decode, &made.decode}}) {
    auto loaded = load(text);
    if (loaded.status().code() == StatusCode::unimplemented) {
      return codec_on_host(codec, shape, loaded.status());
    }
    PLIMSOLL_RETURN_IF_ERROR(loaded.status());
    *kernel = std::move(*loaded);
  }
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
  if (cpu_ == nullptr) return now;
  const device::KernelStatistics on_host = cpu_->statistics();
  now.kernels_compiled += on_host.kernels_compiled;
  now.kernels_loaded += on_host.kernels_loaded;
  now.cache_hits += on_host.cache_hits;
  now.compile_seconds += on_host.compile_seconds;
  now.code_bytes += on_host.code_bytes;
  now.peak_code_bytes += on_host.peak_code_bytes;
  return now;
}

}  // namespace plimsoll::backend
