// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>

#include "jit/compiled_kernel.h"
#include "jit/flat_form.h"
#include "jit/horizontal_kernel.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::jit {

// A flat kernel over one extent.
class FlatLaunch final : public device::Kernel {
 public:
  FlatLaunch(std::shared_ptr<const PhasedKernel> kernel, std::int64_t elements, std::size_t inputs,
             std::size_t outputs)
      : kernel_(std::move(kernel)), elements_(elements), inputs_(inputs), outputs_(outputs) {}

  Status launch(device::Stream&, const device::KernelArguments& arguments) const override {
    if (arguments.inputs.size() != inputs_ || arguments.outputs.size() != outputs_) {
      return internal_error("launch " + name() + ": " + std::to_string(arguments.inputs.size()) +
                            " inputs and " + std::to_string(arguments.outputs.size()) +
                            " outputs (it takes " + std::to_string(inputs_) + " and " +
                            std::to_string(outputs_) + ")");
    }
    const PhaseEntry entry = kernel_->entry(0);
    const auto run = [&](std::int64_t begin, std::int64_t end) {
      entry(arguments.inputs.data(), arguments.outputs.data(), arguments.workspace,
            begin * kFlatUnit, std::min(end * kFlatUnit, elements_));
    };
    const double unit_seconds = kernel_->phases()[0].unit_seconds * kFlatUnit;
    device::parallel_for((elements_ + kFlatUnit - 1) / kFlatUnit,
                         static_cast<std::int64_t>(std::ceil(kPieceSeconds / unit_seconds)), run);
    return ok_status();
  }
  std::int64_t workspace_bytes() const override { return 0; }
  device::KernelOrigin origin() const override { return device::KernelOrigin::jit; }
  const std::string& name() const override { return kernel_->name(); }

 private:
  std::shared_ptr<const PhasedKernel> kernel_;
  std::int64_t elements_;
  std::size_t inputs_, outputs_;
};

}  // namespace plimsoll::jit
