// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "kernels/codec.h"
#include "kernels/cpu/kernel_base.h"
#include "runtime/device/cpu/parallel.h"

// One maker per row of codecs.def; kernels/codec.cc holds the table of them.
namespace plimsoll::kernels {

using CodecResult = Result<CodecKernels>;

// A row without its maker does not link.
#define PLIMSOLL_CODEC(kind, ...) \
  CodecResult make_##kind(const ir::Codec& codec, const ir::Shape& shape);
#include "runtime/ir/codec/codecs.def"
#undef PLIMSOLL_CODEC

Status no_codec(const ir::Codec& codec, const ir::Shape& shape);

// Elements per piece of work; a multiple of eight, so that no two pieces share a byte of bits, and
// of kQuantizedBlock, so that none shares a scale.
inline constexpr std::int64_t kCodecBlock = 1024;
static_assert(kCodecBlock % ir::kQuantizedBlock == 0);

// Runs `body(begin, end)` over [0, count) in parallel, cut at multiples of kCodecBlock. A body
// returns whether it could do all of its elements.
template <typename F>
bool for_codec_blocks(std::int64_t count, F&& body) {
  constexpr std::int64_t kGrain = 64;
  std::atomic<bool> fine{true};
  device::parallel_for((count + kCodecBlock - 1) / kCodecBlock, kGrain,
                       [&](std::int64_t first, std::int64_t last) {
                         const std::int64_t end = std::min(last * kCodecBlock, count);
                         if (!body(first * kCodecBlock, end)) fine.store(false);
                       });
  return fine.load();
}

// A kernel of one input and one output. `body(from, to, begin, end)` does the elements
// [begin, end) and returns whether all of them fit the codec; `loss` says what it means if not.
template <typename F>
std::shared_ptr<const device::Kernel> make_codec_kernel(std::string name, std::int64_t count,
                                                        std::string loss, F body) {
  std::string failure = name + ": " + std::move(loss);
  return make_function_kernel(
      std::move(name),
      [count, failure = std::move(failure), body](
          device::Stream&, const device::KernelArguments& arguments) -> Status {
        const void* from = arguments.inputs[0];
        void* to = arguments.outputs[0];
        const bool fine = for_codec_blocks(count, [&](std::int64_t begin, std::int64_t end) {
          return body(from, to, begin, end);
        });
        return fine ? ok_status() : data_loss(failure);
      });
}

}  // namespace plimsoll::kernels
