// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace plimsoll::kernels {

// Copies the array of `dims` that lies at `source` with `strides` (in elements, any sign) to
// `destination`, dense row-major, in parallel.
void copy_to_dense(std::span<const std::int64_t> dims, std::span<const std::int64_t> strides,
                   int element_bytes, const void* source, void* destination);

}  // namespace plimsoll::kernels
