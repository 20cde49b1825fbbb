// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/status.h"
#include "runtime/device/kernel_provider.h"
#include "runtime/ir/codec/codec.h"
#include "runtime/ir/shape.h"

namespace plimsoll::kernels {

using device::CodecKernels;

// As device::KernelProvider::codec, of the host CPU. INVALID_ARGUMENT for a codec that arrays of
// this dtype don't have. Pure; thread-safe.
Result<CodecKernels> make_codec(const ir::Codec& codec, const ir::Shape& shape);

}  // namespace plimsoll::kernels
