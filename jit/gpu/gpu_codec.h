// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "jit/gpu/gpu_code.h"
#include "runtime/ir/codec/codec.h"

namespace plimsoll::jit {

// One direction of a codec for arrays of `shape`, with the codes that kernels/cpu/codecs makes, bit
// for bit. An entry that finds an element that would not come back sets the word to report by.
// INVALID_ARGUMENT for a codec that arrays of this dtype don't have. Pure.
Result<GpuCode> write_gpu_encoder(const ir::Codec& codec, const ir::Shape& shape);
Result<GpuCode> write_gpu_decoder(const ir::Codec& codec, const ir::Shape& shape);

}  // namespace plimsoll::jit
