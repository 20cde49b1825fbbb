// SPDX-License-Identifier: Apache-2.0
#include "tests/device/cuda/emulated_kernels.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "jit/gpu/gpu_kernel.h"
#include "kernels/cuda/convolution_shape.h"
#include "runtime/backend/cuda_kernels.h"
#include "tests/jit/gpu/grid_emulator.h"

namespace plimsoll::device::cuda {
namespace {

// Tells the driver what a module does before it is loaded.
class EmulatedKernels final : public KernelProvider {
 public:
  EmulatedKernels(RecordingDriver& driver, std::shared_ptr<KernelProvider> real,
                  jit::GpuTarget target, std::unique_ptr<jit::GpuCompiler> compiler)
      : driver_(driver), real_(std::move(real)), target_(target), compiler_(std::move(compiler)) {}

  const std::shared_ptr<Device>& device() const override { return real_->device(); }
  Result<std::shared_ptr<const Kernel>> kernel(const ir::Instruction& instruction) override {
    PLIMSOLL_RETURN_IF_ERROR(emulate(instruction));
    // What a library's kernel of a convolution launches besides.
    if (instruction.opcode() == ir::Opcode::convolution) {
      const auto shape = kernels::cuda::read_convolution(instruction);
      if (shape && !shape->filter_dims.empty()) {
        PLIMSOLL_ASSIGN_OR_RETURN(const auto module,
                                  kernels::cuda::reordered_filters(instruction, *shape));
        PLIMSOLL_RETURN_IF_ERROR(emulate(*module->entry()->root()));
      }
    }
    // What is begun by itself has a kernel of its own.
    if (instruction.opcode() == ir::Opcode::async_start) {
      PLIMSOLL_RETURN_IF_ERROR(emulate(*instruction.called(0)->root()));
    }
    return real_->kernel(instruction);
  }
  std::vector<Result<std::shared_ptr<const Kernel>>> kernels(
      std::span<const ir::Instruction* const> instructions) override {
    std::vector<Result<std::shared_ptr<const Kernel>>> made;
    for (const ir::Instruction* instruction : instructions) made.push_back(kernel(*instruction));
    return made;
  }
  Result<CodecKernels> codec(const ir::Codec& codec, const ir::Shape& shape) override {
    if (const auto code = compiler_->codec(codec, shape); code.ok()) {
      if (!driver_.knows_module(code->encode->ptx)) {
        PLIMSOLL_ASSIGN_OR_RETURN(auto emulated, EmulatedKernel::encoder(codec, shape));
        make_known(*code->encode, std::move(emulated));
      }
      if (!driver_.knows_module(code->decode->ptx)) {
        PLIMSOLL_ASSIGN_OR_RETURN(auto emulated, EmulatedKernel::decoder(codec, shape));
        make_known(*code->decode, std::move(emulated));
      }
    }
    return real_->codec(codec, shape);
  }
  Result<std::shared_ptr<const JointLaunch>> join(std::span<const Kernel* const> parts) override {
    return real_->join(parts);
  }
  KernelStatistics statistics() const override { return real_->statistics(); }

 private:
  using EmulatedKernel = jit::testing::EmulatedKernel;
  Status emulate(const ir::Instruction& instruction) {
    const auto code = compiler_->compile(instruction);
    if (!code.ok() || driver_.knows_module((*code)->ptx)) return ok_status();
    PLIMSOLL_ASSIGN_OR_RETURN(auto emulated, EmulatedKernel::create(instruction, target_));
    make_known(**code, std::move(emulated));
    return ok_status();
  }
  void make_known(const jit::GpuKernel& code, std::unique_ptr<EmulatedKernel> made) {
    const std::shared_ptr<EmulatedKernel> emulated = std::move(made);
    std::map<std::string, EntryFunction> entries;
    for (const jit::GpuLaunch& launch : code.launches) {
      const std::string& entry = launch.entry;
      entries[entry] = [emulated, entry, turn = std::uint64_t{0}](
                           const LaunchShape& shape, std::span<void* const> pointers) mutable {
        using Kind = jit::testing::ThreadOrder::Kind;
        const jit::testing::ThreadOrder order{turn == 0 ? Kind::forward : Kind::shuffled, turn};
        ++turn;
        const Status status = emulated->launch(entry, shape.grid, shape.block, pointers, order);
        if (status.ok()) return;
        std::fprintf(stderr, "emulating '%s': %s\n", entry.c_str(), status.to_string().c_str());
        std::abort();
      };
    }
    driver_.register_module(code.ptx, std::move(entries));
  }

  RecordingDriver& driver_;
  const std::shared_ptr<KernelProvider> real_;
  const jit::GpuTarget target_;
  const std::unique_ptr<jit::GpuCompiler> compiler_;  // writes the same text as the real one's
};

}  // namespace

Result<std::shared_ptr<KernelProvider>> create_emulated_kernels(std::shared_ptr<CudaDevice> device,
                                                                RecordingDriver& driver) {
  const jit::GpuTarget target{device->facts().compute_capability};
  PLIMSOLL_ASSIGN_OR_RETURN(auto compiler, jit::GpuCompiler::create(target));
  PLIMSOLL_ASSIGN_OR_RETURN(auto real, backend::CudaKernels::create(std::move(device)));
  return std::shared_ptr<KernelProvider>(
      std::make_shared<EmulatedKernels>(driver, std::move(real), target, std::move(compiler)));
}

}  // namespace plimsoll::device::cuda
