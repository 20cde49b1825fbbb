// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/cuda/cuda_stream.h"
#include "runtime/device/cuda/module.h"
#include "runtime/device/kernel.h"

namespace plimsoll::device::cuda {

// A kernel as code for a GPU: one module, and which entries of it are launched one after the other.
struct KernelCode {
  // Pointers are counted: all inputs, then all outputs, then the workspace, then the word that a
  // launch reports by (reports.h).
  struct Launch {
    std::string entry;
    std::uint32_t grid = 1, block = 1, shared_bytes = 0;
    std::vector<int> pointers{};  // what the entry takes
    // Left out where this input and this output are one buffer; -1: never.
    int unless_input = -1, unless_output = -1;
  };
  std::string name;
  std::string image;  // PTX or a cubin
  std::vector<Launch> launches{};
  std::size_t inputs = 0, outputs = 0;
  std::int64_t workspace_bytes = 0;
  KernelOrigin origin = KernelOrigin::jit;
};

// Such a kernel, loaded.
class CudaKernel final : public Kernel {
 public:
  static Result<std::shared_ptr<const CudaKernel>> create(std::shared_ptr<const Context> context,
                                                          KernelCode code);
  // Buffers must begin at multiples of 16 bytes.
  Status launch(Stream& stream, const KernelArguments& arguments) const override;
  std::int64_t workspace_bytes() const override { return workspace_bytes_; }
  KernelOrigin origin() const override { return origin_; }
  const std::string& name() const override { return name_; }
  // Of the GPU's memory, by its code.
  std::int64_t device_bytes() const { return module_ == nullptr ? 0 : module_->device_bytes(); }

 private:
  struct Step {
    CudaStream::Entry entry;
    std::vector<int> pointers;
    int unless_input, unless_output;
  };
  explicit CudaKernel(const KernelCode& code)
      : name_(code.name),
        inputs_(code.inputs),
        outputs_(code.outputs),
        workspace_bytes_(code.workspace_bytes),
        origin_(code.origin) {}

  const std::string name_;
  const std::size_t inputs_, outputs_;
  const std::int64_t workspace_bytes_;
  const KernelOrigin origin_;
  std::shared_ptr<const Module> module_;  // null: there is nothing to do
  std::vector<Step> steps_;
};

}  // namespace plimsoll::device::cuda
