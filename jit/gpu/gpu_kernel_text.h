// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "jit/gpu/gpu_kernel.h"

namespace plimsoll::jit {

// A kernel as text, for the cache on disk, and back; nothing where the text is no kernel's. Both
// functions are pure.
std::string write_gpu_kernel(const GpuKernel& kernel);
std::optional<GpuKernel> read_gpu_kernel(std::string_view text);

}  // namespace plimsoll::jit
