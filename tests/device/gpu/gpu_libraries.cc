// SPDX-License-Identifier: Apache-2.0
#include "tests/device/gpu/gpu_libraries.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/cuda/convolution.h"
#include "runtime/backend/backends.h"
#include "runtime/backend/cuda_kernels.h"
#include "runtime/base/index.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cuda/driver.h"
#include "runtime/device/devices.h"

namespace plimsoll::device {
namespace {

// The memory of one measurement.
class Blocks {
 public:
  explicit Blocks(Device& device) : device_(device) {}
  ~Blocks() {
    for (const auto& [pointer, bytes] : blocks_) device_.deallocate(pointer, bytes);
  }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  // Full of small numbers of either sign in every dtype: sums of zeros take less power, and time.
  Result<void*> make(Stream& stream, std::int64_t bytes) {
    PLIMSOLL_ASSIGN_OR_RETURN(void* const made, device_.allocate(bytes));
    blocks_.emplace_back(made, bytes);
    std::vector<std::uint16_t> numbers(at(bytes / 2 + 1));
    std::uint32_t state = 1;
    for (std::uint16_t& number : numbers) {
      state = state * 1664525 + 1013904223;
      number = static_cast<std::uint16_t>(0x3c00 | (state >> 16 & 0x80ff));
    }
    PLIMSOLL_RETURN_IF_ERROR(stream.copy(made, numbers.data(), bytes, CopyKind::host_to_device));
    PLIMSOLL_RETURN_IF_ERROR(stream.synchronize());
    return made;
  }

 private:
  Device& device_;
  std::vector<std::pair<void*, std::int64_t>> blocks_;
};

// Convolutions by the library, whether or not it is faster.
class AlwaysByLibrary final : public KernelProvider {
 public:
  AlwaysByLibrary(std::shared_ptr<KernelProvider> real,
                  std::shared_ptr<const kernels::cuda::ConvolutionLibrary> library)
      : real_(std::move(real)), library_(std::move(library)) {}

  const std::shared_ptr<Device>& device() const override { return real_->device(); }
  Result<std::shared_ptr<const Kernel>> kernel(const ir::Instruction& instruction) override {
    const auto shape = instruction.opcode() == ir::Opcode::convolution && library_ != nullptr
                           ? kernels::cuda::read_convolution(instruction)
                           : std::nullopt;
    if (!shape) return real_->kernel(instruction);
    std::shared_ptr<const Kernel> reorder;
    if (!shape->filter_dims.empty()) {
      PLIMSOLL_ASSIGN_OR_RETURN(const auto module,
                                kernels::cuda::reordered_filters(instruction, *shape));
      PLIMSOLL_ASSIGN_OR_RETURN(reorder, real_->kernel(*module->entry()->root()));
    }
    PLIMSOLL_ASSIGN_OR_RETURN(
        auto made, kernels::cuda::make_convolution(library_, *shape, std::move(reorder)));
    if (made != nullptr) return made;
    return real_->kernel(instruction);
  }
  std::vector<Result<std::shared_ptr<const Kernel>>> kernels(
      std::span<const ir::Instruction* const> instructions) override {
    std::vector<Result<std::shared_ptr<const Kernel>>> made;
    for (const ir::Instruction* instruction : instructions) made.push_back(kernel(*instruction));
    return made;
  }
  Result<CodecKernels> codec(const ir::Codec& codec, const ir::Shape& shape) override {
    return real_->codec(codec, shape);
  }
  Result<std::shared_ptr<const JointLaunch>> join(std::span<const Kernel* const> parts) override {
    return real_->join(parts);
  }
  KernelStatistics statistics() const override { return real_->statistics(); }

 private:
  const std::shared_ptr<KernelProvider> real_;
  const std::shared_ptr<const kernels::cuda::ConvolutionLibrary> library_;
};

}  // namespace

void GpuLibraries::SetUp() {
  auto device = find_device("cuda:0");
  if (!device.ok()) GTEST_SKIP() << device.status().message();
  gpu_ = std::dynamic_pointer_cast<cuda::CudaDevice>(*device);
  if (gpu_ == nullptr) GTEST_SKIP() << "cuda:0 is no GPU of NVIDIA's";
  std::printf("%s (%s)\n", gpu_->properties().model.c_str(), gpu_->libraries().about.c_str());
  auto provider = backend::create_kernels(gpu_);
  ASSERT_TRUE(provider.ok()) << provider.status().to_string();
  with_libraries_ = *provider;
  auto convolutions = kernels::cuda::ConvolutionLibrary::create(
      gpu_->context(), gpu_->libraries().convolutions, gpu_->libraries().allows_tf32);
  ASSERT_TRUE(convolutions.ok()) << convolutions.status().to_string();
  always_by_library_ = std::make_shared<AlwaysByLibrary>(with_libraries_, *convolutions);
  const auto driver = cuda::open_driver();
  ASSERT_TRUE(driver.ok()) << driver.status().to_string();
  auto plain = cuda::CudaDevice::create(**driver, gpu_->facts().ordinal);
  ASSERT_TRUE(plain.ok()) << plain.status().to_string();
  plain_gpu_ = *plain;
  auto own = backend::CudaKernels::create(plain_gpu_);
  ASSERT_TRUE(own.ok()) << own.status().to_string();
  own_ = *own;
  cpu_ = backend::create_kernels(cpu_device()).value();
}

Result<double> seconds_of(KernelProvider& provider, const ir::Instruction& instruction) {
  Device& device = *provider.device();
  PLIMSOLL_ASSIGN_OR_RETURN(const auto kernel, provider.kernel(instruction));
  Blocks blocks(device);
  PLIMSOLL_ASSIGN_OR_RETURN(const auto stream, device.create_stream());
  std::vector<const void*> inputs;
  for (const ir::Instruction* operand : instruction.operands()) {
    PLIMSOLL_ASSIGN_OR_RETURN(const void* const input,
                              blocks.make(*stream, operand->shape().byte_size()));
    inputs.push_back(input);
  }
  PLIMSOLL_ASSIGN_OR_RETURN(void* const result,
                            blocks.make(*stream, instruction.shape().byte_size()));
  PLIMSOLL_ASSIGN_OR_RETURN(void* const workspace, blocks.make(*stream, kernel->workspace_bytes()));
  void* const outputs[] = {result};
  PLIMSOLL_ASSIGN_OR_RETURN(const auto before, device.create_event());
  PLIMSOLL_ASSIGN_OR_RETURN(const auto after, device.create_event());
  const auto round = [&](int launches) -> Result<double> {
    PLIMSOLL_RETURN_IF_ERROR(stream->record(*before));
    for (int i = 0; i < launches; ++i) {
      PLIMSOLL_RETURN_IF_ERROR(stream->launch(*kernel, {inputs, outputs, workspace}));
    }
    PLIMSOLL_RETURN_IF_ERROR(stream->record(*after));
    PLIMSOLL_RETURN_IF_ERROR(stream->synchronize());
    PLIMSOLL_ASSIGN_OR_RETURN(const double seconds, after->seconds_since(*before));
    return seconds / launches;
  };
  // The first launch loads code; the second says how many there is time for.
  constexpr double kSecondsOfARound = 0.02;
  PLIMSOLL_RETURN_IF_ERROR(round(1).status());
  PLIMSOLL_ASSIGN_OR_RETURN(double least, round(1));
  const int launches = std::clamp(static_cast<int>(kSecondsOfARound / least), 1, 16);
  for (int i = 0; i < 3; ++i) {
    PLIMSOLL_ASSIGN_OR_RETURN(const double seconds, round(launches));
    least = std::min(least, seconds);
  }
  return least;
}

}  // namespace plimsoll::device
