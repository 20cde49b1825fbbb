// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/cuda_kernel.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <utility>

#include "runtime/base/index.h"

namespace plimsoll::device::cuda {

Result<std::shared_ptr<const CudaKernel>> CudaKernel::create(std::shared_ptr<const Context> context,
                                                             KernelCode code) {
  std::shared_ptr<CudaKernel> made(new CudaKernel(code));
  if (code.launches.empty()) return std::shared_ptr<const CudaKernel>(std::move(made));
  auto module = Module::load(std::move(context), code.image);
  if (!module.ok()) return module.status().with_context("kernel '" + code.name + "'");
  made->module_ = *module;
  const int most = static_cast<int>(code.inputs + code.outputs) + 1;
  for (KernelCode::Launch& launch : code.launches) {
    for (const int pointer : launch.pointers) {
      if (pointer >= 0 && pointer <= most) continue;
      return internal_error(fmt::format("kernel '{}': entry '{}' takes pointer {} of {}", code.name,
                                        launch.entry, pointer, most + 1));
    }
    auto function = (*module)->function(launch.entry, launch.shared_bytes);
    if (!function.ok()) return function.status().with_context("kernel '" + code.name + "'");
    made->steps_.push_back({{*function, launch.grid, launch.block, launch.shared_bytes},
                            std::move(launch.pointers),
                            launch.unless_input,
                            launch.unless_output});
  }
  return std::shared_ptr<const CudaKernel>(std::move(made));
}

Status CudaKernel::launch(Stream& stream, const KernelArguments& arguments) const {
  if (arguments.inputs.size() != inputs_ || arguments.outputs.size() != outputs_) {
    return internal_error(fmt::format("'{}' was given {} inputs and {} outputs, wants {} and {}",
                                      name_, arguments.inputs.size(), arguments.outputs.size(),
                                      inputs_, outputs_));
  }
  auto& on = static_cast<CudaStream&>(stream);
  const auto workspace = static_cast<int>(inputs_ + outputs_);
  std::vector<const void*> pointers;
  for (const Step& step : steps_) {
    if (step.unless_input >= 0 &&
        arguments.inputs[at(step.unless_input)] == arguments.outputs[at(step.unless_output)]) {
      continue;
    }
    pointers.clear();
    for (const int which : step.pointers) {
      const auto i = at(which);
      if (i < inputs_) {
        pointers.push_back(arguments.inputs[i]);
      } else if (which < workspace) {
        pointers.push_back(arguments.outputs[i - inputs_]);
      } else if (which == workspace) {
        pointers.push_back(arguments.workspace);
      } else {
        PLIMSOLL_ASSIGN_OR_RETURN(const void* const word, on.report_word(name_));
        pointers.push_back(word);
      }
    }
    const Status launched = on.launch_entry(step.entry, pointers);
    if (!launched.ok()) return launched.with_context("'" + name_ + "'");
  }
  return ok_status();
}

}  // namespace plimsoll::device::cuda
