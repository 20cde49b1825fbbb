// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "runtime/base/status.h"
#include "runtime/device/kernel.h"
#include "runtime/ir/codec/codec.h"
#include "runtime/ir/shape.h"

namespace plimsoll::kernels {

// The two directions of a codec for arrays of one shape. An encoder reads a value of `shape` and
// writes ir::encoded_bytes of it, a decoder goes back; the buffers may not overlap.
// Decoding gives the very bits that were encoded, but for compare_mask (a value with the same
// outcome) and the lossy codecs (ir::error_bound). An encoder looks at every element: one that
// would not come back (narrow), a pred byte that is neither 0 nor 1 (bit_mask), a finite one that
// rounds to infinity (bfloat16, float16), or one that no scale reaches (int8, int4: infinite, NaN,
// or so large that its rounding overflows) makes the launch fail with DATA_LOSS.
struct CodecKernels {
  std::shared_ptr<const device::Kernel> encode, decode;
};

// INVALID_ARGUMENT for a codec that arrays of this dtype don't have. Pure; thread-safe.
Result<CodecKernels> make_codec(const ir::Codec& codec, const ir::Shape& shape);

}  // namespace plimsoll::kernels
