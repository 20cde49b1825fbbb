// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>

#include "jit/loops/flat_form.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/device/cpu/phased_kernel.h"

namespace plimsoll::jit {

// A flat kernel over one extent.
class FlatLaunch final : public device::PhasedKernel {
 public:
  // `kernel`: of a flat form's fusion, without an extent of its own.
  FlatLaunch(std::shared_ptr<const device::PhasedKernel> kernel, std::int64_t elements)
      : kernel_(std::move(kernel)), phase_(kernel_->phases()[0]) {
    phase_.units = elements;
    phase_.cut = kFlatUnit;
  }

  Status launch(device::Stream&, const device::KernelArguments& arguments) const override {
    if (arguments.inputs.size() != input_count() || arguments.outputs.size() != output_count()) {
      return internal_error(fmt::format("launch {}: {} inputs and {} outputs (it takes {} and {})",
                                        name(), arguments.inputs.size(), arguments.outputs.size(),
                                        input_count(), output_count()));
    }
    const auto run = [&](std::int64_t begin, std::int64_t end) {
      phase_.run(arguments.inputs.data(), arguments.outputs.data(), arguments.workspace,
                 begin * kFlatUnit, std::min(end * kFlatUnit, phase_.units));
    };
    const double seconds = phase_.unit_seconds * kFlatUnit;
    device::parallel_for((phase_.units + kFlatUnit - 1) / kFlatUnit,
                         static_cast<std::int64_t>(std::ceil(device::kPieceSeconds / seconds)),
                         run);
    return ok_status();
  }
  std::int64_t workspace_bytes() const override { return 0; }
  device::KernelOrigin origin() const override { return device::KernelOrigin::jit; }
  const std::string& name() const override { return kernel_->name(); }
  std::span<const device::KernelPhase> phases() const override { return {&phase_, 1}; }
  std::span<const void* const> tables() const override { return {}; }
  std::size_t input_count() const override { return kernel_->input_count(); }
  std::size_t output_count() const override { return kernel_->output_count(); }

 private:
  std::shared_ptr<const device::PhasedKernel> kernel_;
  device::KernelPhase phase_;
};

}  // namespace plimsoll::jit
