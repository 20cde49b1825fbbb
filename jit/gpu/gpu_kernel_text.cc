// SPDX-License-Identifier: Apache-2.0
#include "jit/gpu/gpu_kernel_text.h"

#include <utility>

#include "jit/cache/archive.h"

namespace plimsoll::jit {

std::string write_gpu_kernel(const GpuKernel& kernel) {
  // The bindings fail to compile when a member is added, and so nothing is left out.
  const auto& [name, ptx, launches, inputs, outputs, workspace_bytes, is_library, from_disk] =
      kernel;
  ArchiveWriter text;
  text.string(name);
  text.number(inputs);
  text.number(outputs);
  text.number(workspace_bytes);
  text.number(std::int64_t{is_library ? 1 : 0});
  text.number(static_cast<std::int64_t>(launches.size()));
  for (const auto& [entry, grid, block, shared_bytes, arguments, unless_input, unless_output] :
       launches) {
    text.string(entry);
    for (const std::uint32_t number : {grid, block, shared_bytes})
      text.number(std::int64_t{number});
    text.number(static_cast<std::int64_t>(arguments.size()));
    for (const int argument : arguments) text.number(std::int64_t{argument});
    text.number(std::int64_t{unless_input});
    text.number(std::int64_t{unless_output});
  }
  text.string(ptx);
  return text.take();
}

std::optional<GpuKernel> read_gpu_kernel(std::string_view text) {
  ArchiveReader reader(text);
  GpuKernel kernel;
  kernel.name = std::string(reader.string());
  kernel.inputs = reader.number();
  kernel.outputs = reader.number();
  kernel.workspace_bytes = reader.number();
  kernel.is_library = reader.number() != 0;
  const std::int64_t launches = reader.number();
  for (std::int64_t i = 0; i < launches && reader.ok; ++i) {
    GpuLaunch launch;
    launch.entry = std::string(reader.string());
    for (std::uint32_t* number : {&launch.grid, &launch.block, &launch.shared_bytes}) {
      *number = static_cast<std::uint32_t>(reader.number());
    }
    const std::int64_t arguments = reader.number();
    for (std::int64_t k = 0; k < arguments && reader.ok; ++k) {
      launch.arguments.push_back(static_cast<int>(reader.number()));
    }
    launch.unless_input = static_cast<int>(reader.number());
    launch.unless_output = static_cast<int>(reader.number());
    kernel.launches.push_back(std::move(launch));
  }
  kernel.ptx = std::string(reader.string());
  if (!reader.at_end()) return std::nullopt;
  kernel.from_disk = true;
  return kernel;
}

}  // namespace plimsoll::jit
